"""The code that README and docs show runs as it is printed."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def blocks():
    for name in ("README.md", "docs/recipes.md"):
        text = (ROOT / name).read_text(encoding="utf-8")
        for i, code in enumerate(re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)):
            yield pytest.param(code, id=f"{name} {i}")


@pytest.mark.parametrize("code", list(blocks()))
def test_block_runs(code, capsys):
    exec(compile(code, "document", "exec"), {"__name__": "document"})
    assert "nan" not in capsys.readouterr().out


def test_links_lead_somewhere():
    for document in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")]:
        for target in re.findall(r"\]\(([^)#]+)\)", document.read_text(encoding="utf-8")):
            if not target.startswith("http"):
                assert (document.parent / target).exists(), f"{document.name}: {target}"
