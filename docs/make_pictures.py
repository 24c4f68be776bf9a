"""Draws the pictures of the pages from the code beside them: ``python docs/make_pictures.py [page …]``."""

import io
import re
import sys
import time
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from PIL import Image

DOCS = Path(__file__).parent
BLOCK = re.compile(r"```python\n((?:(?!```).)*?)```\n\n!\[[^\]]*\]\((?:\.\./)*(images/\w+\.png)\)", flags=re.DOTALL)
PAGES = [DOCS / "pictures.md", DOCS / "likelihoods.md", *sorted((DOCS / "kernels").glob("*.md"))]
FEW_COLOURS = ("images/kernels_", "images/likelihoods_")


def main(pages: list[Path], folder: Path = DOCS) -> list[Path]:
    """Run each block that has a picture behind it, and save what it has drawn."""
    drawn = []
    for page in pages:
        for code, name in BLOCK.findall(page.read_text(encoding="utf-8")):
            plt.close("all")
            start = time.process_time()
            exec(compile(code, name, "exec"), {"__name__": "document"})
            seconds = time.process_time() - start
            path = folder / name
            path.parent.mkdir(exist_ok=True)
            _save(path, colours=64 if name.startswith(FEW_COLOURS) else 256)
            drawn.append(path)
            print(f"{path.name}: {seconds:.1f} s of processor time, {path.stat().st_size / 1000:.0f} kB")
    plt.close("all")
    return drawn


def _save(path: Path, colours: int) -> None:
    """The current figure in few colours, which take half the room."""
    whole = io.BytesIO()
    plt.gcf().savefig(whole, dpi=90)
    Image.open(whole).convert("RGB").quantize(colours).save(path, optimize=True)


if __name__ == "__main__":
    main([Path(page) for page in sys.argv[1:]] or PAGES)
