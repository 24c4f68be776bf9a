"""How a fitted estimator looks in a notebook: its kernel and a table of what it has learnt, as plain HTML."""

from __future__ import annotations

import copy
from html import escape
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from sklearn import get_config
from sklearn.base import BaseEstimator

from stratagp.errors import StrataGPError
from stratagp.models.stack import StackModel
from stratagp.training import HyperparameterTable
from stratagp.training.curvature import Hyperparameter

if TYPE_CHECKING:
    from stratagp.estimators.shell import Estimator as Estimator
else:  # which has functions of this module as methods
    Estimator = Any

_MOST_VALUES = 60
_LONGEST = 600  # characters of a kernel


def html_repr(self: Estimator) -> str:
    """Of a fitted estimator what it has learnt, without scripts; before that what scikit-learn shows.

    >>> from stratagp import GPRegressor
    >>> gp = GPRegressor(max_iterations=0).fit([[0.0], [1.0]], [1.0, 2.0])
    >>> "<td>kernel.lengthscale[x0]</td>" in html_repr(gp)
    True
    """
    return _learnt(self) if "fitted_" in vars(self) else str(BaseEstimator._repr_html_inner(self))


def mime_bundle(self: Estimator, **options: Any) -> dict[str, str]:
    """The same beside the text, for notebooks that choose.

    scikit-learn's would ask for all that was learnt first, some of which is long to compute.
    """
    shown = {"text/plain": repr(self)}
    return shown | {"text/html": html_repr(self)} if get_config()["display"] == "diagram" else shown


def fitted_attributes(self: Estimator, doc_link: str = "") -> Any:
    """What scikit-learn's diagrams of pipelines list: attributes at hand, none that must be computed first."""
    known = SimpleNamespace(**{name: value for name, value in vars(self).items() if name.endswith("_")})
    return BaseEstimator._get_fitted_attr_html(known, doc_link)


def learnt_values(model: Estimator, with_errors: bool) -> list[Hyperparameter]:
    """Learnt values; with standard errors if these are wanted, or known already."""
    if not with_errors and "hyperparameters_" not in vars(model):
        model = copy.copy(model)
        model.fitted_ = copy.copy(model.fitted_)
        model.fitted_.learnt = None  # the score, whose curvature gives standard errors
    return list(model.hyperparameters_)


def shown_kernel(model: Any, name: str = "kernel_") -> str | None:
    """A kernel as text; None where a model has none of this name, or one for each layer."""
    try:
        text = str(getattr(model, name))
    except (AttributeError, StrataGPError):
        return None
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def _learnt(model: Estimator) -> str:
    lines = [("", repr(model)), ("inference", getattr(model, "inference_", None)), ("kernel", shown_kernel(model))]
    shown = [f"{name}: <code>{escape(text)}</code>" if name else escape(text) for name, text in lines if text]
    return f"<div>{'<br>'.join(shown)}{_table(model)}</div>"


def _table(model: Estimator) -> str:
    """The values, or the members of a stack."""
    if isinstance(model.fitted_, StackModel):
        parts = zip(model.fitted_.members, model.fitted_.weights.tolist(), strict=True)
        lines = "".join(f"<tr><td>{escape(m.name)}</td><td>{100 * w:.0f} %</td></tr>" for m, w in parts)
        return f"<table><tr><th>member</th><th>weight</th></tr>{lines}</table>"
    values = learnt_values(model, with_errors=False)
    more = f"{len(values) - _MOST_VALUES} more values" if len(values) > _MOST_VALUES else ""
    return HyperparameterTable(tuple(values[:_MOST_VALUES]))._repr_html_() + more
