"""Drawings of matplotlib as SVG inside a page, in the colour of its text, so that light and dark themes both suit."""

from __future__ import annotations

import io
import re
from html import escape
from typing import Any

from stratagp.plotting.style import BLUE, ORANGE

_INK = "#010203"  # stands for the colour of the page's text
_THEMED = {_INK: "currentColor", BLUE.lower(): "var(--blue)", ORANGE.lower(): "var(--orange)"}
SETTINGS: dict[str, Any] = {
    "text.parse_math": False,  # a name may have dollar signs
    "axes.unicode_minus": True,
    "svg.fonttype": "none",
    "svg.hashsalt": "stratagp",
    "figure.facecolor": "none",
    "axes.facecolor": "none",
    "savefig.facecolor": "none",
    "legend.frameon": False,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "font.size": 10.0,
    **dict.fromkeys(("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color"), _INK),
    **dict.fromkeys(("xtick.labelcolor", "ytick.labelcolor"), "inherit"),
}
_TAG = re.compile(r"<[^>]*>")
_NAME = re.compile(r'(\bid="|url\(#|href="#)')


def inline(figure: Any, name: str, alt: str) -> str:
    """The figure as an ``svg`` element with a text for those who do not see it; the same figure gives the same text.

    ``name`` goes before every identifier, as those of one page must differ.
    """
    text = io.StringIO()
    figure.savefig(text, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    found = text.getvalue()
    found = re.sub(
        r"<!--.*?-->|<metadata>.*?</metadata>|<style.*?</style>", "", found[found.index("<svg") :], flags=re.DOTALL
    )
    found = _TAG.sub(lambda tag: _themed(_NAME.sub(rf"\g<1>{name}-", tag[0])), found)
    box = re.search(r'viewBox="([^"]*)"', found)
    assert box is not None
    width = float(box[1].split()[2])
    head = f'<svg viewBox="{box[1]}" role="img" aria-label="{escape(alt)}" style="max-width: {width * 4 / 3:.0f}px">'
    return head + re.sub(r"\n\s*", "\n", found[found.index(">") + 1 :].strip())


def _themed(tag: str) -> str:
    """Colours that depend on the theme, by the variables of the page's style."""
    for colour, variable in _THEMED.items():
        tag = tag.replace(colour, variable)
    return tag
