"""The page: sentences, tables and pictures from plain results, in one file without scripts or addresses."""

from __future__ import annotations

import importlib
import os
from pathlib import Path
from typing import Any

from stratagp.errors import InputError
from stratagp.report import pictures, scores, words
from stratagp.report.formats import count, number, percent
from stratagp.report.shape import check_results

_HERE = Path(__file__).parent


def write_report(results: dict[str, Any], path: str | os.PathLike[str]) -> Path:
    """Write the page about ``results`` to ``path``, and return where it is.

    The page depends on the results alone: the same dict gives the same bytes.

    Arguments:
        results: what :func:`stratagp.report.results.gather` returns, or the same read from JSON.
        path: of an HTML file, in a folder that exists.

    >>> write_report({"format": 0}, "page.html")
    Traceback (most recent call last):
    ...
    stratagp.errors.InputError: results: format is 0, and pages are made from format 1: gather the results anew
    """
    check_results(results)
    target = Path(path)
    if not target.parent.is_dir():
        raise InputError(f"path: the folder {str(target.parent)!r} does not exist: make it first")
    target.write_text(_page(results), encoding="utf-8")
    return target


def _page(results: dict[str, Any]) -> str:
    try:
        jinja = importlib.import_module("jinja2")
    except ImportError:
        raise InputError("reports need jinja2 and matplotlib: pip install 'stratagp[plot]'") from None
    options = {"autoescape": True, "undefined": jinja.StrictUndefined, "trim_blocks": True, "lstrip_blocks": True}
    environment = jinja.Environment(loader=jinja.FileSystemLoader(_HERE), **options)
    environment.filters |= {"number": number, "percent": percent, "count": count}
    template = environment.get_template("page.html")
    return template.render(
        r=results,
        words=words,
        table=scores.score_table(results),
        pictures=pictures.draw_all(results),
    )
