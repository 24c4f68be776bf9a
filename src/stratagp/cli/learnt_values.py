"""What a model has learnt, as its folder tells without loading the model."""

from __future__ import annotations

from typing import Any

import stratagp
from stratagp.cli.output import plain
from stratagp.errors import StrataGPError

_MOST = 60  # values
_LONGEST = 600  # characters of a kernel


def learnt_by(model: Any) -> dict[str, Any]:
    """The kernel with its values, and each of these by its name in the units of the user; or the members of a stack.

    >>> import numpy as np
    >>> X = np.linspace(0, 6, 20)[:, None]
    >>> found = learnt_by(stratagp.GPRegressor(max_iterations=0).fit(X, np.sin(X[:, 0])))
    >>> found["kernel"][:7], [each["name"] for each in found["values"]]
    ('Matern(', ['kernel.lengthscale[x0]', 'kernel.variance', 'noise'])
    """
    if isinstance(model, (stratagp.StrataRegressor, stratagp.StrataClassifier)):
        stack: Any = model.fitted_
        parts = zip(stack.members, stack.weights.tolist(), strict=True)
        return {"members": [{"name": m.name, "weight": w, "kernel": _kernel(m.fitted.module)} for m, w in parts]}
    table = stratagp.report.learnt.learnt_table(model, with_errors=False)
    values = [{"name": row.name, "value": plain(row.value)} for row in table[:_MOST]]
    return {"kernel": _kernel(model.model_), "values": values, "more_values": max(0, len(table) - _MOST)}


def _kernel(module: Any) -> str | None:
    """A kernel as text; None where a model has none, or one for each layer."""
    try:
        text = str(module.kernel)
    except (AttributeError, StrataGPError):
        return None
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def in_words(found: dict[str, Any]) -> list[list[str]]:
    """The same as rows of a table: a heading, and what it is about.

    >>> in_words({"kernel": "RBF(lengthscale=2)", "values": [{"name": "noise", "value": 0.25}], "more_values": 3})
    [['kernel', 'RBF(lengthscale=2)'], ['learnt', 'noise = 0.25'], ['', '3 more values']]
    """
    rows = [["kernel", found["kernel"]]] if found.get("kernel") else []
    values = [f"{each['name']} = {_number(each['value'])}" for each in found.get("values", [])]
    values += [f"{found['more_values']} more values"] if found.get("more_values") else []
    rows += [["" if i else "learnt", text] for i, text in enumerate(values)]
    for i, each in enumerate(found.get("members", [])):
        own = f": {each['kernel']}" if each["kernel"] else ""
        rows.append(["" if i else "members", f"{100 * each['weight']:.0f} % {each['name']}{own}"])
    return rows


def _number(value: Any) -> str:
    return "unknown" if value is None else f"{value:.4g}"
