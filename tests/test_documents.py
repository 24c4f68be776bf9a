"""The code that README and docs show runs as it is printed."""

import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
EXCERPTS = {
    "examples.md",
    "examples_surrogates.md",
    "extending.md",
    "gallery.md",
}  # whose code is part of files that other tests run
STEPS = {"tutorial.md"}  # whose blocks go on from one another


def pages():
    return [ROOT / "README.md", *sorted(page for page in (ROOT / "docs").rglob("*.md") if page.name not in EXCERPTS)]


def blocks():
    """Code marked ``python`` runs; ``py`` is that of other libraries, which is only shown."""
    for page in pages():
        name, text = page.relative_to(ROOT), page.read_text(encoding="utf-8")
        found = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
        for i, code in enumerate(["".join(found)] if page.name in STEPS else found):
            yield pytest.param(code, id=f"{name} {i}")


@pytest.fixture(autouse=True)
def close_pictures():
    yield
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")


@pytest.mark.parametrize("code", list(blocks()))
def test_block_runs(code, capsys):
    if "from botorch" in code:
        pytest.importorskip("botorch", exc_type=ImportError)
    exec(compile(code, "document", "exec"), {"__name__": "document"})
    assert "nan" not in capsys.readouterr().out


def test_links_lead_somewhere():
    for document in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]:
        for target in re.findall(r"\]\(([^)#]+)\)", document.read_text(encoding="utf-8")):
            if not target.startswith("http"):
                assert (document.parent / target).exists(), f"{document.name}: {target}"


def test_pictures_are_small():
    images = ROOT / "docs" / "images"
    assert (images / "which_model.png").stat().st_size <= 60_000
    families = [*images.glob("kernels_*.png"), *images.glob("likelihoods_*.png")]
    large = [path.name for path in families if path.stat().st_size > 40_000]
    assert not large
