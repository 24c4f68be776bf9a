"""What the results on tables say: on the screen, and in the page of benchmarks."""

from __future__ import annotations

import math

import numpy as np

from harness import HERE, in_words, markdown_table
from table_contestants import CONTESTANTS
from table_scores import (
    CENTRAL,
    MEASURES,
    TABPFN,
    Results,
    compared,
    contestants_of,
    near_best,
    ranks,
    shares,
    tables_of,
    values,
)
from table_sets import TABLES, Task

PICTURE = HERE.parent / "docs" / "images" / "tables.png"

Lines = list[dict[str, str]]


def summary(results: Results) -> dict[str, Lines]:
    """Titles and rows of text: all together for both kinds of target, then table by table."""
    shown = {}
    for task, measures in MEASURES.items():
        if tables_of(results, task):
            shown[f"{task.capitalize()}: all tables"] = together(results, task)
            first = next(iter(measures))
            shown[f"{task.capitalize()}: {measures[first]}, means over splits, * near the best"] = one_by_one(
                results, task, first
            )
    return shown


def together(results: Results, task: Task) -> Lines:
    """A row for each contestant: mean ranks, shares of tables, coverage, seconds."""
    measures = MEASURES[task]
    ranked = {measure: ranks(results, task, measure) for measure in measures}
    good = {measure: shares(results, task, measure) for measure in measures}
    lines = []
    for who in contestants_of(results, task):
        line = {"": who}
        for measure, title in measures.items():
            if who in ranked[measure]:
                line[f"rank, {title}"] = f"{ranked[measure][who].mean():.2f}"
                count, total = good[measure][who]
                line[f"near the best {title}"] = f"{count} of {total}"
        if task == "regression":
            line["inside 50, 80, 95 %"] = ", ".join(f"{100 * found:.1f}" for found in covered(results, task, who))
        rows = [row for name in tables_of(results, task) for row in results.get((name, who), {}).values()]
        done = [row["fit"] for row in rows if "fit" in row]
        line["fit, median and longest"] = f"{in_words(np.median(done))}, {in_words(max(done))}" if done else "–"
        line["not finished"] = f"{len(rows) - len(done)} of {len(rows)}"
        lines.append(line)
    return lines


def covered(results: Results, task: Task, who: str) -> list[float]:
    """Shares of test rows inside central intervals: means over splits, then over tables."""
    found = []
    for percent in CENTRAL:
        each = [values(results, name, who, f"inside_{percent}") for name in tables_of(results, task)]
        found.append(float(np.mean([np.mean(list(splits.values())) for splits in each if splits] or [math.nan])))
    return found


def one_by_one(results: Results, task: Task, measure: str) -> Lines:
    """A row for each table: its size and the mean score of each contestant, with a mark for those near the best."""
    who, lines = contestants_of(results, task), []
    for name in tables_of(results, task):
        scored = compared(results, name, measure, who)
        near = near_best(scored) if scored else {}
        row = next(
            (r for (each, _), rows in results.items() if each == name for r in rows.values() if "rows" in r), None
        )
        lines.append(
            {
                "table": name,
                "rows": f"{row['rows'] + row['tested']:,}" if row else "–",
                "splits": str(len(next(iter(scored.values())))) if scored else "0",
                **{w: f"{scored[w].mean():.3f}{'*' if near[w] else ''}" if w in scored else "–" for w in who},
            }
        )
    return lines


def in_units(results: Results) -> Lines:
    """NLPD in the units of the target, beside TabPFN's published figures."""
    lines = []
    for name, published in TABPFN.items():
        line = {"table": name}
        for who in CONTESTANTS["regression"]:
            found = results.get((name, who), {}).values()
            each = [row["nlpd"] + math.log(row["scale"]) for row in found if "nlpd" in row]
            if each:
                line[who] = f"{np.mean(each):.3f}"
        lines.append({**line, "TabPFN, other splits": f"{published:.3f}"})
    return lines


def markdown(results: Results) -> str:
    """The section of the page: all together, the picture, density beside TabPFN, table by table, sources."""
    parts = [
        "Ranks are of means over splits; who did not finish all splits of a table is last there. *Near the best*: at "
        "most one standard error of the differences over splits behind the best. NLPD, RMSE and CRPS are of "
        "standardised targets."
    ]
    for task in MEASURES:
        if tables_of(results, task):
            parts += [f"### {task.capitalize()}", markdown_table(together(results, task))]
    parts.append("![Mean ranks on all tables, with critical differences](images/tables.png)")
    if tables_of(results, "regression"):
        parts.append(
            "NLPD in the units of the target, and what is published for TabPFN v2 on other splits of the same sets:"
        )
        parts.append(markdown_table(in_units(results)))
    for task, measures in MEASURES.items():
        if tables_of(results, task):
            for measure in list(measures)[:2]:
                parts.append(f"{measures[measure]} by table; bold: near the best.")
                parts.append(markdown_table(bold(one_by_one(results, task, measure))))
    names = [name for task in MEASURES for name in tables_of(results, task)]
    parts.append("Sources: " + "; ".join(f"{name}: {TABLES[name].source}" for name in names) + ".")
    return "\n\n".join(parts)


def bold(lines: Lines) -> Lines:
    return [{key: f"**{cell[:-1]}**" if cell.endswith("*") else cell for key, cell in line.items()} for line in lines]
