"""The benchmarks on tables: what contestants get, how they are scored and compared, what the page says."""

import argparse
import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from scipy import stats

import harness
import priors
import table_report
import table_scores
import table_sets
import tables
from stratagp import metrics
from stratagp.priors import LogNormal
from table_contestants import CONTESTANTS, Gaussians, in_form, standardised

RNG = np.random.default_rng(0)


# --- tables ---


def test_rare_categories_are_one_so_that_none_is_unseen() -> None:
    values = pd.Series(["a"] * 30 + ["b"] * 12 + ["c"] * 6 + ["d"] * 5 + [None] * 11)
    counts = table_sets.column_of(values).value_counts().to_dict()
    assert counts == {"a": 30, "b": 12, "other": 11, "missing": 11}


def test_few_rows_of_rare_categories_join_the_most_frequent_one() -> None:
    column = table_sets.column_of(pd.Series(["a"] * 30 + ["b"] * 12 + ["c"] * 3))
    assert column.value_counts().to_dict() == {"a": 33, "b": 12}


def test_rows_without_a_number_copies_and_constant_columns_are_left_out() -> None:
    frame = pd.DataFrame({"x": [1.0, np.nan, 3.0, 4.0, 1.0], "same": 2, "target": ["p", "q", "q", "p", "p"]})
    table = table_sets.TableSet(lambda: frame, "target", "made up", "classification")
    X, y = table_sets.prepared(table)
    assert X.to_dict("list") == {"x": [1.0, 3.0, 4.0]}
    assert y.tolist() == [0, 1, 0]
    assert len(table_sets.prepared(table, with_copies=True)[1]) == 4


@pytest.mark.parametrize("name", ["iris", "diabetes", "meuse", "esol", "yacht", "promoters"])
def test_splits_test_each_row_once_and_have_every_class_and_category(name: str) -> None:
    table = table_sets.TABLES[name]
    splits = [table_sets.parts(name, split) for split in range(table.splits)]
    n = len(splits[0].y) + len(splits[0].y_test)
    assert sum(len(rows.y_test) for rows in splits) == n
    for rows in splits:
        assert set(rows.y_test) <= set(rows.y) or table.task == "regression"
        for column in rows.X.select_dtypes("category"):
            assert set(rows.X_test[column]) <= set(rows.X[column])
    with pytest.raises(ValueError, match=f"0 to {table.splits - 1}"):
        table_sets.parts(name, table.splits)


def test_there_are_enough_tables_and_each_names_its_source() -> None:
    tasks = [table.task for table in table_sets.TABLES.values()]
    assert tasks.count("regression") >= 25
    assert tasks.count("classification") >= 12
    assert all(table.source for table in table_sets.TABLES.values())


def test_every_form_of_rows_is_of_numbers_or_categories() -> None:
    X = pd.DataFrame({"n": [1.0, 2.0], "c": pd.Categorical(["u", "v"]), "t": ["CCO", "CN"]})
    assert list(in_form("no text", X, X, ("t",))[0]) == ["n", "c"]
    native, _ = in_form("categories", X, X, ("t",))
    assert native["c1"].dtype == "category"
    hot, hot_test = in_form("one-hot", X, X[:1], ("t",))
    assert list(hot) == list(hot_test)
    assert set(hot.dtypes) == {np.dtype(float)}
    assert in_form("frame", X, X, ("t",))[0] is X


# --- scores ---


def test_crps_by_quantiles_is_that_of_the_closed_form() -> None:
    mean, std, y = RNG.normal(size=40), RNG.uniform(0.5, 2, 40), 2 * RNG.normal(size=40)
    found = table_scores.of_numbers(Gaussians(mean, std), y, scale=2.0)
    assert found["crps"] == pytest.approx(metrics.crps(y, mean, std) / 2, rel=1e-3)
    assert found["nlpd"] == pytest.approx(metrics.nlpd(y / 2, mean / 2, std / 2))
    assert found["inside_95"] == pytest.approx(metrics.coverage(y, mean, std, 0.95))


def test_answers_to_standardised_targets_come_back_in_their_units() -> None:
    y = 100 + 10 * RNG.normal(size=50)
    found = standardised(lambda X, z: lambda new: (np.full(len(new), z.mean()), z.std()))(pd.DataFrame(y), y)
    answer = found(pd.DataFrame(y[:3]))
    np.testing.assert_allclose(answer.mean, y.mean())
    np.testing.assert_allclose(answer.std, y.std())


def test_log_loss_has_a_largest_value() -> None:
    found = table_scores.of_classes(np.array([[1.0, 0.0], [0.2, 0.8]]), np.array([1, 1]))
    assert found["log_loss"] == pytest.approx((math.log(1e6) - math.log(0.8)) / 2)
    assert found["error"] == 0.5


def results() -> table_scores.Results:
    """Two tables: a is better by far than b, and equal to c; c did not finish the second one."""
    noise = [0.01, -0.01, 0.01]

    def rows(level: float) -> dict[int, dict[str, float]]:
        measures = {"rows": 80, "tested": 20, "fit": 1.0, "inside_50": 0.5, "inside_80": 0.8, "inside_95": 0.9}
        return {i: {**measures, **dict.fromkeys(("nlpd", "rmse", "crps"), level + e), "scale": 1.0} for i, e in
                enumerate(noise)}  # fmt: skip

    first = {("yacht", who): rows(level) for who, level in (("a", 0.0), ("b", 1.0))}
    first["yacht", "c"] = {i: {**row, "nlpd": -row["nlpd"]} for i, row in rows(0.0).items()}
    second = {
        ("servo", "a"): rows(0.0),
        ("servo", "b"): rows(-1.0),
        ("servo", "c"): {0: rows(0.0)[0], 1: {"failed": ""}},
    }
    return {**first, **second}


def test_near_the_best_is_within_a_standard_error_of_the_differences() -> None:
    found = table_scores.shares(results(), "regression", "nlpd")
    assert found == {"a": (1, 2), "b": (1, 2), "c": (1, 2)}
    assert table_scores.near_best({"a": np.array([1.0]), "b": np.array([1.1])}) == {"a": True, "b": False}


def test_who_does_not_finish_comes_last() -> None:
    found = {who: each.tolist() for who, each in table_scores.ranks(results(), "regression", "nlpd").items()}
    assert found == {"a": [2.0, 2.0], "b": [1.0, 3.0], "c": [3.0, 1.0]}


def test_critical_differences_are_those_of_the_literature() -> None:
    q = {2: 1.960, 5: 2.728, 10: 3.164}  # Demšar 2006, Table 5
    for k, value in q.items():
        assert table_scores.critical_difference(k, 30) == pytest.approx(value * math.sqrt(k * (k + 1) / 180), abs=2e-3)


def test_the_page_and_the_picture_are_made_of_what_is_stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page, picture = tmp_path / "page.md", tmp_path / "images" / "tables.png"
    page.write_text("above\n<!-- tables: begin -->\nstale\n<!-- tables: end -->\nbelow\n")
    monkeypatch.setattr(harness, "PAGES", [page])
    for _ in range(2):
        harness.refresh("tables", table_report.markdown(results()))
    text = page.read_text()
    assert text.startswith("above\n<!-- tables: begin -->\n\nRanks")
    assert text.endswith("<!-- tables: end -->\nbelow\n")
    assert "| yacht | 100 | 3 | **0.003** | 1.003 | **-0.003** |" in text
    assert "stale" not in text
    table_scores.draw(results(), picture)
    assert picture.stat().st_size > 1000


def test_the_first_split_of_all_tables_comes_first() -> None:
    given = argparse.Namespace(tables=["yacht", "iris"], only=["CatBoost"], splits=10, quick=False)
    found = list(tables.entries(given))
    assert found[:3] == [("yacht", 0, "CatBoost"), ("iris", 0, "CatBoost"), ("yacht", 1, "CatBoost")]
    assert len(found) == 15
    assert CONTESTANTS["regression"].keys() & CONTESTANTS["classification"].keys() >= {"CatBoost", "NGBoost"}


def test_an_entry_is_fitted_and_scored() -> None:
    found = tables.prepare("HistGradientBoosting", "iris", 0)()
    assert found["log_loss"] < 0.5
    assert (found["rows"], found["tested"]) == (119, 30)  # two rows are equal
    number = tables.prepare("HistGradientBoosting", "diabetes", 0)()
    assert 0.5 < number["rmse"] < 1
    assert 0.8 < number["inside_95"] <= 1


# --- priors ---


def test_the_narrow_prior_is_a_gaussian_on_the_log() -> None:
    start, values = 3.0, torch.tensor([0.5, 3.0, 20.0], dtype=torch.float64)
    found = LogNormal(start * math.exp(priors.NARROW**2), priors.NARROW).log_prob(values)
    truth = stats.norm.logpdf(values.log(), math.log(start), priors.NARROW)
    np.testing.assert_allclose(np.diff(found), np.diff(truth), rtol=1e-12)


def test_idle_columns_leave_the_others_as_they_are() -> None:
    few, many = (priors.data(f"Friedman-1 and {idle} idle", 0) for idle in (0, 100))
    assert (few[0].shape, many[0].shape, few[2].shape) == ((150, 5), (150, 105), (1000, 5))
    assert few[1].std() == pytest.approx(1)


def test_priors_are_compared_on_what_all_have_done() -> None:
    def row(value: float) -> dict[str, dict[str, float]]:
        return {"values": {"nlpd": value}}

    rows = {f"servo, split 0, {which}": row(i) for i, which in enumerate(["ml", "narrow", "botorch", "default"])}
    rows["servo, split 0, bayes"] = {"values": {"too large": 1}}
    shown = priors.lines(rows, "nlpd")
    assert shown[0] == {"table": "servo", "ml": "0.000", "narrow": "1.000", "botorch": "2.000", "default": "3.000"}
    assert shown[2]["table"] == "1 tables: mean rank"
    assert shown[2]["default"] == "4.000"
