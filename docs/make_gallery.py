"""Writes ``docs/gallery.md`` and its pictures: ``python docs/make_gallery.py [name …]`` runs these examples, or all.

A page entry is the example itself: the title and the text of its docstring, its code, what it prints, what it draws.
"""

import ast
import contextlib
import io
import re
import sys
import time
from pathlib import Path
from typing import NamedTuple

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from PIL import Image

DOCS = Path(__file__).parent
EXAMPLES = DOCS.parent / "examples" / "gallery"
PAGE = DOCS / "gallery.md"
SECTIONS = {
    "Predict a number": ["intervals", "best", "mixed_table", "forecast", "varying_noise", "outliers"],
    "Predict something else": ["counts", "survival", "several_targets"],
    "Predict a class": ["two_classes", "sets_of_classes", "pipeline"],
    "Know how sure you are": ["two_doubts", "conformal", "full_bayes", "exceedance"],
    "Understand": ["relevance", "interactions", "parts", "latent_space"],
    "Decide": ["where_next", "optimise", "uncertain_inputs"],
    "Texts, series, molecules, images": ["strings", "series", "graphs", "images"],
    "Many rows, files, and your own parts": ["many_rows", "save_and_load", "own_kernel", "torch_module"],
}
INTRODUCTION = """# Gallery

Short scripts, ordered by what people want to do. They are in [`examples/gallery`](../examples/gallery), take their data
from scikit-learn or make them up, and run in a few seconds each. The tests run all of them and compare what they print
with this page, which `docs/make_gallery.py` writes. The pages about [real data](examples.md) and
[surrogates](examples_surrogates.md) have longer studies, and the [recipes](recipes.md) more options.
"""


class Example(NamedTuple):
    """A script: the title and the text of its docstring, and its code."""

    name: str
    title: str
    text: str
    code: str

    @property
    def picture(self) -> Path:
        """Where its picture is, if it draws one."""
        return DOCS / "images" / f"gallery_{self.name}.png"

    def run(self) -> str:
        """What the example prints; what it draws is the current figure afterwards."""
        plt.close("all")
        printed = io.StringIO()
        show, plt.show = plt.show, lambda: None
        try:
            with contextlib.redirect_stdout(printed):
                exec(compile(self.code, f"{self.name}.py", "exec"), {"__name__": "__main__"})
        finally:
            plt.show = show
        return "\n".join(line.rstrip() for line in printed.getvalue().splitlines())


def read(name: str) -> Example:
    """The example of a name."""
    source = (EXAMPLES / f"{name}.py").read_text(encoding="utf-8")
    tree = ast.parse(source)
    title, _, text = (ast.get_docstring(tree) or "").partition("\n")
    code = "".join(source.splitlines(keepends=True)[tree.body[0].end_lineno :]).strip()
    return Example(name, title.rstrip("."), text.strip(), code)


def shown(page: str) -> dict[str, str]:
    """What a page says that each example prints."""
    found = re.findall(r"gallery/(\w+)\.py\).*?```\n\n```text\n(.*?)\n```", page, flags=re.DOTALL)
    return dict(found)


def entry(example: Example, printed: str) -> str:
    """The part of the page about one example."""
    picture = f"\n![{example.title}](images/{example.picture.name})\n" if example.picture.exists() else ""
    link = f"[`{example.name}.py`](../examples/gallery/{example.name}.py)"
    code = f"```python\n{example.code}\n```\n\n```text\n{printed}\n```"
    return f"### {example.title}\n\n{example.text} ({link})\n\n{code}\n{picture}"


def draw(example: Example) -> None:
    """Save the current figure, if there is one, in few colours and at a width for a page."""
    if not plt.get_fignums():
        return
    whole = io.BytesIO()
    plt.gcf().savefig(whole, dpi=75)
    Image.open(whole).convert("RGB").quantize(64).save(example.picture, optimize=True)
    plt.close("all")


def main(names: list[str]) -> None:
    """Run the named examples, or all, and write the page."""
    printed = shown(PAGE.read_text(encoding="utf-8")) if PAGE.exists() else {}
    parts = [INTRODUCTION]
    for section, members in SECTIONS.items():
        parts.append(f"## {section}\n")
        for example in map(read, members):
            if not names or example.name in names:
                start = time.process_time()
                printed[example.name] = example.run()
                draw(example)
                print(f"{example.name}: {time.process_time() - start:.1f} s\n{printed[example.name]}", flush=True)
            parts.append(entry(example, printed.get(example.name, "")))
    PAGE.write_text("\n".join(parts), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
