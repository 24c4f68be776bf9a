"""Draws time and density against rows from ``benchmarks/results/sizes.json``: ``python docs/draw_sizes.py``."""

import io
import json
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from PIL import Image

DOCS = Path(__file__).parent
RESULTS, PATH = DOCS.parent / "benchmarks" / "results" / "sizes.json", DOCS / "images" / "sizes.png"
COLOURS = {"exact": "#1f4e8c", "vecchia": "#c2571a", "sparse": "#5a8f3c", "stochastic": "#7a4fa3"}
SETS = {"protein": "o", "pol": "s", "pumadyn32nm": "^", "powerplant": "v", "sarcos": "P", "smooth": "D", "flights": "*"}
KINDS = {"fit": "seconds to fit", "nlpd": "NLPD of test rows"}


def curves() -> dict[tuple[str, str], list[dict[str, float]]]:
    """The results of each set and way of inference of ours, by rows."""
    found: dict[tuple[str, str], list[dict[str, float]]] = {}
    for key, row in json.loads(RESULTS.read_text(encoding="utf-8"))["rows"].items():
        name, _, who = key.split(", ")
        if who in COLOURS and row["values"]["result"] is not None:
            found.setdefault((name, who), []).append(row["values"]["result"])
    return {key: sorted(rows, key=lambda row: row["rows"]) for key, rows in found.items()}


def main(path: Path = PATH) -> None:
    """Two panels: a colour for each way of inference, a mark for each set."""
    figure, panels = plt.subplots(1, 2, figsize=(11, 4), layout="constrained", facecolor="white")
    for ax, (kind, title) in zip(panels, KINDS.items(), strict=True):
        for (name, who), rows in curves().items():
            places, values = [row["rows"] for row in rows], [row[kind] for row in rows]
            ax.plot(places, values, marker=SETS[name], color=COLOURS[who], lw=1, ms=5, alpha=0.85)
        ax.set(xscale="log", yscale="log" if kind == "fit" else "linear", xlabel="training rows", ylabel=title)
        if kind == "fit":
            ax.yaxis.set_major_formatter("{x:g}")
            ax.yaxis.set_minor_formatter("")
        ax.spines[["top", "right"]].set_visible(False)
    used = {who for _, who in curves()}, {name for name, _ in curves()}
    ways = [plt.Line2D([], [], color=colour, label=who) for who, colour in COLOURS.items() if who in used[0]]
    marks = [
        plt.Line2D([], [], color="#444444", marker=mark, ls="", label=name)
        for name, mark in SETS.items()
        if name in used[1]
    ]
    figure.legend(handles=[*ways, *marks], loc="outside right center", frameon=False)
    whole = io.BytesIO()
    figure.savefig(whole, dpi=90)
    Image.open(whole).convert("RGB").quantize(64).save(path, optimize=True)
    plt.close(figure)


if __name__ == "__main__":
    main()
