"""Draws the tree of questions of ``docs/which_model.md``: ``python docs/draw_tree.py``."""

import io
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from PIL import Image

PATH = Path(__file__).parent / "images" / "which_model.png"
INK, QUESTION, ANSWER = "#222222", "#dbe9f6", "#e6f3df"  # boxes of their own colour, which light and dark pages suit

# Each question: where it stands, what it asks, and the answers, with the estimators or the question they lead to.
QUESTIONS = [
    ("What is a row?", ["numbers, categories", "texts, graphs, molecules", "images", "several views", "no targets"]),
    ("What is the target?", ["numbers", "classes", "counts, times, shares"]),
    ("How many rows?", ["to 4,000", "in memory", "more"]),
]
LEAVES = {
    "texts, graphs, molecules": "GPRegressor, GPClassifier\nwith kernels.Spectrum(3), …\n"
    "many: GPDRFRegressor, …Classifier",
    "images": "DKLClassifier, DKLRegressor",
    "several views": "DFGPRegressor, DFGPClassifier\nwith views=…",
    "no targets": "BayesianGPLVM",
    "classes": "GPClassifier\nlarger than memory: AutoGPClassifier\nranks: AutoGPClassifier(likelihood=…)",
    "counts, times, shares": "AutoGPRegressor(likelihood=…)",
    "to 4,000": 'GPRegressor: exact\nnoise varies: noise="heteroscedastic"\nkinks, steps: compare DFGPRegressor',
    "in memory": "GPRegressor: Vecchia",
    "more": "AutoGPRegressor\nlearnt features: DKLRegressor",
}
COLUMNS, FIRST, GAP, LINE = (0.0, 2.55, 5.1), -0.6, 0.44, 0.165


def main() -> None:
    """One column for each question, from left to right; the first answer leads to the next question."""
    figure, ax = plt.subplots(figsize=(11, 4.3), layout="constrained", facecolor="white")
    ax.set(xlim=(-0.1, 7.3), ylim=(-3.9, 0.3))
    ax.axis("off")
    for column, (question, answers) in zip(COLUMNS, QUESTIONS, strict=True):
        _box(ax, column, 0.0, question, QUESTION, bold=True)
        height = FIRST
        for answer in answers:
            _answer(ax, column, height, answer)
            height -= GAP + LINE * len(LEAVES.get(answer, "").splitlines())
    whole = io.BytesIO()
    figure.savefig(whole, dpi=100)
    Image.open(whole).convert("RGB").quantize(32).save(PATH, optimize=True)
    print(f"{PATH.name}: {PATH.stat().st_size / 1000:.0f} kB")


def _answer(ax: Axes, column: float, height: float, answer: str) -> None:
    """An answer, and below it what it leads to: an arrow to the next question, or estimators."""
    ax.plot([column - 0.06, column - 0.06], [height + 0.1, -0.12], color=INK, linewidth=0.8)
    ax.plot([column - 0.06, column], [height + 0.1, height + 0.1], color=INK, linewidth=0.8)
    ax.text(column + 0.03, height + 0.1, answer, va="center", fontsize=9, style="italic", color=INK)
    if answer not in LEAVES:
        end, start = (column + 2.4, 0.0), (column + 1.45, height + 0.1)
        ax.annotate("", end, start, arrowprops={"arrowstyle": "->", "color": INK, "connectionstyle": "arc3,rad=-0.2"})
    else:
        _box(ax, column, height - 0.12, LEAVES[answer], ANSWER, top=True)


def _box(ax: Axes, x: float, y: float, text: str, colour: str, bold: bool = False, top: bool = False) -> None:
    style = {"boxstyle": "round,pad=0.3", "facecolor": colour, "edgecolor": "none"}
    weight, size = ("bold", 10) if bold else ("normal", 8.5)
    ax.text(x + 0.06, y, text, va="top" if top else "center", fontsize=size, weight=weight, color=INK, bbox=style)


if __name__ == "__main__":
    main()
