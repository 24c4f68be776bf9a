"""What a model has learnt, as its folder tells without loading the model."""

from __future__ import annotations

from typing import Any

import stratagp
from stratagp.cli.output import plain

_MOST = 60  # values


def learnt_by(model: Any) -> dict[str, Any]:
    """The kernel with its values, and each of these by its name in the units of the user; or the members of a stack.

    >>> import numpy as np
    >>> X = np.linspace(0, 6, 20)[:, None]
    >>> found = learnt_by(stratagp.GPRegressor(max_iterations=0).fit(X, np.sin(X[:, 0])))
    >>> found["kernel"][:7], [each["name"] for each in found["values"]]
    ('Matern(', ['kernel.lengthscale[x0]', 'kernel.variance', 'noise'])
    """
    shown_kernel = stratagp.estimators.notebook.shown_kernel
    if isinstance(model, (stratagp.StrataRegressor, stratagp.StrataClassifier)):
        stack: Any = model.fitted_
        parts = zip(stack.members, stack.weights.tolist(), strict=True)
        kernels = ((m, w, shown_kernel(m.fitted.module, "kernel")) for m, w in parts)
        return {"members": [{"name": m.name, "weight": w, "kernel": kernel} for m, w, kernel in kernels]}
    table = stratagp.report.learnt.learnt_table(model, with_errors=False)
    values = [{"name": row.name, "value": plain(row.value)} for row in table[:_MOST]]
    return {"kernel": shown_kernel(model.model_, "kernel"), "values": values, "more_values": max(0, len(table) - _MOST)}


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
