"""Sentences depend on the numbers: what few rows, training rows and counts can and cannot prove."""

import copy

import numpy as np
import pytest
from scipy.stats import binom, binomtest

from stratagp.report import words, write_report
from stratagp.report.answers import ClassAnswers
from stratagp.report.words import compare, score_table


def page_of(results, tmp_path):
    return write_report(results, tmp_path / "page.html").read_text(encoding="utf-8")


def covering(results, shares, n=1000):
    """Results whose intervals hold the given shares of rows."""
    found = copy.deepcopy(results)
    inside = [round(n * shares(level)) for level in found["calibration"]["levels"]]
    found["calibration"] |= {"inside": inside, "rows": n}
    return found


def test_verdicts_on_error_bars(results):
    verdict = words.bars_verdict(covering(results, lambda level: level))
    assert verdict.kind == "about right"
    assert "hold 95 % of 1,000 rows" in verdict.sentence
    verdict = words.bars_verdict(covering(results, lambda level: 0.8 * level))
    assert verdict.kind == "too narrow"
    assert "Intervals of 95 % hold 76 %" in verdict.sentence
    verdict = words.bars_verdict(covering(results, lambda level: level**0.5))
    assert verdict.kind == "too wide"
    assert words.bars_verdict(covering(results, lambda level: 0.3 + 0.6 * level)).kind == "uneven"
    verdict = words.bars_verdict(covering(results, lambda level: level, n=1000))
    assert "With 1,000 rows, coverage can be judged only to within about ± 3.8 percentage points." in verdict.sentence
    assert (
        words.bars_verdict(covering(results, lambda level: level - 0.01, n=10**6)).kind == "about right"
    )  # who cares?


@pytest.mark.parametrize(("n", "within"), [(3, 47), (10, 35)])
def test_few_rows_prove_nothing(results, n, within):
    """Half the width of the interval of Clopper and Pearson at 98.3 %, the widest of three."""
    found = covering(results, lambda level: 0.8 * level, n=n)
    inside = dict(zip(found["calibration"]["levels"], found["calibration"]["inside"], strict=True))
    ends = [binomtest(inside[level], n).proportion_ci(1 - 0.05 / 3, "exact") for level in (0.5, 0.8, 0.95)]
    assert max(high - low for low, high in ends) * 50 == pytest.approx(within, abs=0.5)
    verdict = words.bars_verdict(found)
    assert verdict.kind == "unclear"
    assert f"{n} rows can tell only to within about ± {within} percentage points" in verdict.sentence
    assert words.bars_verdict(covering(results, lambda level: 0.2 * level, n=30)).kind == "too narrow"


def test_training_rows_prove_nothing(results, classification, tmp_path):
    found = covering(results, lambda level: level)
    found["performance"]["evidence"] = "training"
    assert words.bars_verdict(found).kind == "unclear"
    assert 'class="verdict good"' not in page_of(found, tmp_path)
    assert words.bars_verdict(covering(found, lambda level: 0.5 * level)).kind == "too narrow"
    found = copy.deepcopy(classification[2])
    found["performance"]["evidence"] = "training"
    found["calibration"] |= {"rows": 500, "right": 400, "confidence": 0.8, "error_low": 0.0}
    assert words.bars_verdict(found).kind == "unclear"


def test_a_right_model_is_rarely_blamed(results):
    rng = np.random.default_rng(0)
    u = rng.uniform(size=(1000, 200))
    levels = np.array(results["calibration"]["levels"])
    blamed = 0
    for row in u:
        inside = (row[:, None] <= levels).sum(0)
        found = results["calibration"] | {"inside": inside.tolist(), "rows": 200}
        blamed += any(each["verdict"] != "as promised" for each in words.coverage(found))
    assert blamed <= binom.ppf(0.999, 1000, 0.05)


def test_verdicts_on_probabilities(classification):
    results = copy.deepcopy(classification[2])
    kinds = []
    for confidence in (0.95, 0.8, 0.6):
        results["calibration"] |= {"rows": 500, "right": 400, "confidence": confidence, "error_low": 0.0}
        kinds.append(words.bars_verdict(results).kind)
    assert kinds == ["too sure", "about right", "too unsure"]
    results["calibration"] |= {"rows": 5, "right": 4, "confidence": 0.8}
    assert words.bars_verdict(results).kind == "unclear"  # as 28 to 99 % may be right
    assert "5 rows can tell only to within about ± 36 percentage points" in words.bars_verdict(results).sentence


def test_probabilities_that_are_off_both_ways_are_not_right(classification):
    """Half the rows are called sure by 0.99 and half by 0.51, and three quarters of both are right."""
    rng = np.random.default_rng(0)
    top = np.repeat([0.99, 0.51], 2000)
    answers = ClassAnswers((rng.random(4000) > 0.75).astype(int), np.stack([top, 1 - top], 1), ["a", "b"])
    found = classification[2] | {"calibration": answers.calibration(0)}
    assert found["calibration"]["confidence"] == pytest.approx(0.75)
    verdict = words.bars_verdict(found)
    assert verdict.kind == "uneven"
    assert "off in both directions" in verdict.sentence


def test_the_comparison_is_honest(results):
    results["performance"]["scores"]["rmse"] = {"value": 4.0, "error": 0.1}
    for other, kind, said in ((8.0, "better", "better by 50 %"), (4.1, "unclear", "no clear difference")):
        results["performance"]["baselines"] = {"mean": {"rmse": 9.0}, "line": {"rmse": other}}
        assert compare(results).kind == kind
        assert said in compare(results).sentence
        assert "for line" in compare(results).sentence
    results["performance"]["baselines"] = {"line": {"rmse": 2.0}}
    assert compare(results).kind == "worse"
    assert "the model is worse by 100 %" in compare(results).sentence
    results["performance"]["evidence"] = "training"
    results["performance"]["baselines"] = {"line": {"rmse": 8.0}}
    assert compare(results).kind == "unclear"
    assert "proves nothing" in compare(results).sentence
    results["performance"]["baselines"] = {}
    assert compare(results).kind == "alone"


def test_few_right_rows_are_not_certain(classification, tmp_path):
    """All of 5 right is no proof against a baseline of 80 %: the interval of Clopper and Pearson begins at 47.8 %."""
    results = copy.deepcopy(classification[2])
    results["performance"] |= {"rows": 5, "baselines": {"shares": {"accuracy": 0.8}}}
    results["performance"]["scores"]["accuracy"] = {"value": 1.0, "error": None}
    assert compare(results).kind == "unclear"
    table = score_table(results)
    at = [column["name"] for column in table["columns"]].index("share of rows that are right")
    assert table["ranges"][at] == pytest.approx(tuple(binomtest(5, 5).proportion_ci(0.95, "exact")), rel=1e-9)
    page = page_of(results, tmp_path)
    assert "<small>47.8 % to 100 %</small>" in page
    assert "± 0 %" not in page
    for rows, other, kind in ((500, 0.8, "better"), (10, 0.8, "unclear"), (20, 0.5, "better"), (1, 0.0, "unclear")):
        results["performance"] |= {"rows": rows, "baselines": {"shares": {"accuracy": other}}}
        assert compare(results).kind == kind
    results["performance"]["scores"]["accuracy"]["value"] = 0.5
    results["performance"] |= {"rows": 500, "baselines": {"shares": {"accuracy": 0.6}}}
    assert compare(results).kind == "worse"


def test_a_score_without_its_error_is_no_proof(results):
    results["performance"]["scores"]["rmse"] = {"value": 4.0, "error": None}
    results["performance"]["baselines"] = {"mean": {"rmse": 9.0}}
    assert compare(results).kind == "unclear"


def test_counts_are_explained(results, tmp_path):
    assert "whole numbers" not in page_of(results, tmp_path)
    found = covering(results, lambda level: 0.5 + 0.5 * level)
    found["calibration"] |= {
        "counts": True,
        "promised": [0.5 + 0.5 * level for level in found["calibration"]["levels"]],
    }
    verdict = words.bars_verdict(found)
    assert verdict.kind == "about right"
    assert "Intervals of 95 %, which end on whole numbers and promise 97.5 %, hold 97.5 %" in verdict.sentence
    page = page_of(found, tmp_path)
    assert "Intervals of counts end on whole numbers" in page
    assert "97.5 % is right" in page


def test_differences_in_each_row_decide_where_they_are_known(results):
    performance = results["performance"]
    performance["scores"] |= {"rmse": {"value": 4.0, "error": 3.0}, "nlpd": {"value": 2.0, "error": 1.0}}
    performance["baselines"] = {"trees": {"rmse": 3.9, "nlpd": 2.5}}
    performance["gains"] = {"trees": {"rmse": (-0.8, 0.1), "nlpd": (0.5, 0.4)}}  # of squares, and of densities
    assert compare(results).kind == "worse"
    performance["gains"]["trees"]["nlpd"] = (0.5, 0.1)
    assert compare(results).kind == "mixed"
    assert compare(results).loses
    performance["gains"]["trees"] = {"rmse": (-0.8, 0.5), "nlpd": (0.5, 0.1)}
    assert compare(results).kind == "better"
    assert "the model is better by 0.5" in compare(results).sentence


def test_an_impossible_error_is_no_chance(results):
    performance = results["performance"]
    performance["scores"] |= {"rmse": {"value": 4.0, "error": 3.0}}
    performance["scores"].pop("nlpd")
    performance["baselines"] = {"trees": {"rmse": 3.0}}
    results["worst"]["rows"][0]["off"] = -3.0
    assert compare(results).kind == "unclear"
    assert words.bars_verdict(covering(results, lambda level: level)).kind == "about right"
    results["worst"]["rows"][0]["off"] = -34.2
    assert compare(results).kind == "worse"
    assert "Its worst prediction is 34 standard deviations off." in compare(results).sentence
    verdict = words.bars_verdict(covering(results, lambda level: level))
    assert verdict.kind == "uneven"
    assert "34 standard deviations off, which no chance explains" in verdict.sentence


def test_what_a_fit_has_found_stands(results):
    results["performance"]["verdict"] = ["worse", "Trees are better."]
    assert compare(results) == words.Verdict("worse", "Trees are better.")
