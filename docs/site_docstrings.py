"""Docstrings as Markdown: examples as blocks of code, names in the manner of Sphinx as code."""

from __future__ import annotations

import re
from typing import Any

import griffe

EXAMPLE = re.compile(r"^( *)>>> .*(?:\n(?! *$).*)*", flags=re.MULTILINE)
ROLE = re.compile(r":(?:class|func|meth|mod|attr|data):`~?(?:[^`<]*<)?([^`>]+)>?`")


class Markdown(griffe.Extension):
    """Rewrites each docstring once it is read from the source."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Fence examples, which Markdown would take for quotations, and shorten names to their last part."""
        if obj.docstring:
            fenced = EXAMPLE.sub(lambda block: f"{block[1]}```pycon\n{block[0]}\n{block[1]}```", obj.docstring.value)
            obj.docstring.value = ROLE.sub(lambda role: f"`{role[1].rpartition('.')[2]}`", fenced)
