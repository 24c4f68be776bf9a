"""The page: sentences, tables and pictures from plain results, in one file without scripts."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from stratagp.errors import InputError
from stratagp.report import pictures, words
from stratagp.report.results import FORMAT
from stratagp.report.values import count, number, percent

_HERE = Path(__file__).parent
_NUMBER: Any = (int, float)
_MAYBE: Any = (int, float, type(None))
_TEXT: Any = (str, type(None))
_CELL: Any = (str, int, float, type(None))
_VALUE = {"name": str, "value": _MAYBE, "note": str, "lower": _MAYBE, "upper": _MAYBE}
_COLUMN = {"name": str, "kind": str, "missing": int, "low": _CELL, "middle": _CELL, "high": _CELL, "top": list}
_CURVE = {"name": str, "mean": [_MAYBE], "low": [_MAYBE], "high": [_MAYBE]}
_CURVES = {
    **{"name": str, "kind": str, "values": [_CELL], "more_values": int},
    **{"curves": [_CURVE], "more_curves": int, "band": str, "rug": [_MAYBE]},
}
_CANDIDATE = {"name": str, "why": str, "rows": int}
_CANDIDATE |= dict.fromkeys(("density", "error", "weight", "seconds"), _NUMBER)
_COMMON = {
    "task": str,
    "title": str,
    "made": str,
    "target": str,
    "model": {
        "name": str,
        "inner": _TEXT,
        "kernel": _TEXT,
        "inference": _TEXT,
        "reason": _TEXT,
        "values": [_VALUE],
        "more_values": int,
        "has_errors": bool,
        "lengthscales": [{"column": str, "value": _NUMBER}],
        "noise": _MAYBE,
        "candidates": [_CANDIDATE],
    },
    "effects": {"relevance": [{"name": str, "share": _NUMBER}], "more": int, "curves": [_CURVES]},
    "history": [{"number": int, "epochs": [int], "values": [_MAYBE], "ending": str}],
    "repeat": {"settings": dict, "assumptions": [str], "seed": int, "versions": dict},
}
_DATA = {"rows": int, "test_rows": (int, type(None)), "columns": [_COLUMN], "more_columns": int}
_PERFORMANCE = {"evidence": str, "rows": int, "of": int, "scores": dict, "baselines": dict}
_POINTS = {"predicted": [_MAYBE], "true": [_MAYBE], "z": [_MAYBE]}
_BINS = {name: [_MAYBE] for name in ("edges", "rows", "probability", "share", "lower", "upper")}
_WORST = {"row": str, "inputs": [_CELL]}
_REGRESSION = {
    "data": {**_DATA, "target": {"counts": [int], "edges": [_NUMBER], **dict.fromkeys(("mean", "std"), _NUMBER)}},
    "performance": {**_PERFORMANCE, "points": _POINTS},
    "calibration": {
        **{"rows": int, "levels": [_NUMBER], "promised": [_NUMBER], "counts": bool},
        **{"inside": [int], "pit": [_NUMBER], "width": _MAYBE},
    },
    "worst": {
        "columns": [str],
        "level": _MAYBE,
        "rows": [{**_WORST, **dict.fromkeys(("true", "predicted", "low", "high", "off"), _MAYBE)}],
    },
}
_CLASSIFICATION = {
    "data": {**_DATA, "target": {"classes": [str], "counts": [int]}},
    "performance": {**_PERFORMANCE, "confusion": (dict, type(None))},
    "calibration": {
        **{"rows": int, "right": int, "bins": _BINS},
        **dict.fromkeys(("confidence", "error", "error_low", "error_high"), _NUMBER),
    },
    "worst": {
        "columns": [str],
        "rows": [{**_WORST, "true": str, "predicted": str, "p_true": _NUMBER, "p_predicted": _NUMBER}],
    },
}
_TASKS = {"regression": _REGRESSION, "classification": _CLASSIFICATION}


def write_report(results: dict[str, Any], path: str | os.PathLike[str]) -> Path:
    """Write the page about ``results`` to ``path``, and return the path.

    The same results give the same page, byte for byte.

    Arguments:
        results: what :func:`stratagp.report.results.gather` returns, or the same read from JSON.
        path: of an HTML file, in a folder that exists.

    >>> write_report({"format": 0}, "page.html")
    Traceback (most recent call last):
    ...
    stratagp.errors.InputError: results: format is 0, but must be 1: gather the results again
    """
    check_results(results)
    target = Path(path)
    if not target.parent.is_dir():
        raise InputError(f"path: the folder {str(target.parent)!r} does not exist: create it first")
    target.write_text(_page(results), encoding="utf-8")
    return target


def _page(results: dict[str, Any]) -> str:
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_HERE),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"number": number, "percent": percent, "count": count}
    template = environment.get_template("page.html")
    return template.render(
        r=results,
        words=words,
        style=(_HERE / "page.css").read_text("utf-8"),
        table=words.score_table(results),
        pictures=pictures.draw_all(results),
    )


def check_results(results: Any) -> None:
    """Refuse what :func:`stratagp.report.results.gather` does not return, and name the place.

    >>> check_results({"format": 1, "task": "regression"})
    Traceback (most recent call last):
    ...
    stratagp.errors.InputError: results: title is missing; give the dict that stratagp.report.results.gather returns
    """
    if not isinstance(results, dict) or "format" not in results:
        raise _wrong("results has no format")
    if results["format"] != FORMAT:
        found = results["format"]
        raise InputError(f"results: format is {found!r}, but must be {FORMAT}: gather the results again")
    if results.get("task") not in _TASKS:
        raise _wrong(f"task must be 'regression' or 'classification', got {results.get('task')!r}")
    _check(results, _COMMON | _TASKS[results["task"]], "")


def _check(value: Any, wanted: Any, place: str) -> None:
    if isinstance(wanted, dict):
        if not isinstance(value, dict):
            raise _wrong(f"{place} must be a dict, got {type(value).__name__}")
        for name, inside in wanted.items():
            where = f"{place}.{name}".lstrip(".")
            if name not in value:
                raise _wrong(f"{where} is missing")
            _check(value[name], inside, where)
    elif isinstance(wanted, list):
        if not isinstance(value, list):
            raise _wrong(f"{place} must be a list, got {type(value).__name__}")
        for i, each in enumerate(value):
            _check(each, wanted[0], f"{place}[{i}]")
    elif not isinstance(value, wanted):
        raise _wrong(f"{place} must not be {value!r}")


def _wrong(what: str) -> InputError:
    return InputError(f"results: {what}; give the dict that stratagp.report.results.gather returns")
