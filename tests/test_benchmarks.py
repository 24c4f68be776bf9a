"""The benchmark harness, the readers of the data sets, and the agreement of contestants on their answers."""

import json
import shutil
import sys
import time
from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import Path

import numpy as np
import pytest
import sklearn
import torch

import datasets
import harness
import pages
from evidence import PEERS, difference, problem, stratagp_evidence
from harness import Benchmark, Skip, best_of, environment, in_subprocess, in_words, peer, race
from linalg import distance_gain, gain_row, log_density_gain, many_functions, marginals_gain, shared_points

MEGABYTE = 2**20


@pytest.fixture
def bench(tmp_path: Path) -> Benchmark:
    return Benchmark("trial", threads=1, folder=tmp_path)


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Contestants rest before each turn, for fair times, which matter to no test."""
    monkeypatch.setattr(harness, "PAUSE", 0.0)


# --- the harness ---


def test_the_best_of_several_calls_is_taken_after_a_warm_up() -> None:
    naps = iter([0.2, 0.1, 0.01, 0.1])  # the first only warms up
    assert 0.01 <= best_of(lambda: time.sleep(next(naps)), repeats=3) < 0.1
    assert next(naps, None) is None


def test_contestants_take_turns() -> None:
    order: list[str] = []
    race({name: lambda name=name: order.append(name) for name in "ab"}, repeats=2)
    assert "".join(order) == "ababab"


def allocate(megabytes: int) -> Callable[[], int]:
    return lambda: int(np.ones(megabytes * MEGABYTE, dtype=np.uint8).sum()) // MEGABYTE


def skip() -> None:
    raise Skip("there is nothing to do")


def fail() -> None:
    raise ValueError("a broken benchmark")


def test_pages_are_made_of_stored_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bench: Benchmark) -> None:
    page = tmp_path / "page.md"
    page.write_text("a\n<!-- trial: begin -->stale<!-- trial: end -->\n<!-- trial 2: begin --><!-- trial 2: end -->z")
    monkeypatch.setattr(harness, "PAGES", [page])
    bench.row("one", lambda: {"n": 1})
    again = Benchmark("trial", threads=2, folder=tmp_path, markdown=True)
    assert again.row("one", skip) == {"n": 1}
    assert again.row("two", skip) is None  # nothing is measured
    assert list(again.available({"rival": skip})) == ["rival"]  # nor made
    again.show("First", [{"n": "1"}, {"n": "2", "more": "x"}])
    again.show("Second", [{"m": "3"}])
    text = page.read_text()
    assert "| n | more |\n| --- | --- |\n| 1 | – |\n| 2 | x |" in text
    today = datetime.now(timezone.utc).date().isoformat()
    assert again.measured().startswith(f"*Measured {today}: ")
    assert again.measured().endswith(f", one thread, torch {torch.__version__}.*")  # of who measured
    ending = f"<!-- trial 2: begin -->\n\n| m |\n| --- |\n| 3 |\n\n{again.measured()}\n\n<!-- trial 2: end -->z"
    assert text.endswith(ending)
    assert "stale" not in text


def test_the_pages_show_what_is_stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No table between marks is older than its file of results; no mark is without one."""
    names = pages.subjects()
    assert {"tables", "priors", "sizes", "search", "gp_drf", "scale"} <= set(names)
    for name in names:
        assert (harness.RESULTS / f"{name}.json").exists()
    copies = [tmp_path / page.name for page in harness.PAGES]
    for copy, page in zip(copies, harness.PAGES, strict=True):
        shutil.copy(page, copy)
    texts = [copy.read_text(encoding="utf-8") for copy in copies]
    monkeypatch.setattr(harness, "PAGES", copies)
    monkeypatch.setattr("tables.draw", lambda results, path: None)
    monkeypatch.setattr(sys, "argv", sys.argv)
    pages.main()
    assert [copy.read_text(encoding="utf-8") for copy in copies] == texts


def test_a_process_of_its_own_reports_time_and_peak_memory_of_the_call() -> None:
    measured = in_subprocess("tests.test_benchmarks:allocate", 64, threads=1)
    assert measured.result == 64
    assert measured.seconds < 10
    if measured.peak_bytes is not None:
        assert 63 * MEGABYTE < measured.peak_bytes < 70 * MEGABYTE


def test_a_process_of_its_own_passes_on_skips_and_failures() -> None:
    with pytest.raises(Skip, match="nothing to do"):
        in_subprocess("tests.test_benchmarks:skip")
    with pytest.raises(RuntimeError, match="a broken benchmark"):
        in_subprocess("tests.test_benchmarks:fail")


def sleep(seconds: float) -> Callable[[], None]:
    return lambda: time.sleep(seconds)


def test_a_process_that_takes_too_long_is_ended() -> None:
    with pytest.raises(TimeoutError, match="did not finish in"):
        in_subprocess("tests.test_benchmarks:sleep", 60, threads=1, limit=0.5)


def test_forgotten_rows_are_measured_again(bench: Benchmark) -> None:
    for key in "ab":
        bench.row(key, lambda: {"seconds": 1.0})
    bench.forget(["a", "c"])
    assert [bench.row(key, lambda: {"seconds": 2.0}) for key in "ab"] == [{"seconds": 2.0}, {"seconds": 1.0}]


def ask_for_a_peer() -> Callable[[], bool]:
    return lambda: bool(peer("sklearn"))


def test_a_process_of_its_own_tells_the_versions_of_peers() -> None:
    assert in_subprocess("tests.test_benchmarks:ask_for_a_peer").peers == {"sklearn": sklearn.__version__}


def test_only_rows_with_the_words_are_measured(tmp_path: Path) -> None:
    bench = Benchmark("trial", threads=1, only=["ours,theirs", "small"], folder=tmp_path)
    found = {
        key: bench.row(key, lambda: {}) for key in ("small, ours", "large, ours", "small, others", "small, theirs")
    }
    assert [key for key, row in found.items() if row is not None] == ["small, ours", "small, theirs"]


def test_rows_are_measured_once_and_kept(bench: Benchmark, tmp_path: Path) -> None:
    assert bench.row("n=1", lambda: {"seconds": 1.5}) == {"seconds": 1.5}
    again = Benchmark("trial", threads=1, folder=tmp_path)
    assert again.row("n=1", lambda: {"seconds": 9.9}) == {"seconds": 1.5}
    fresh = Benchmark("trial", fresh=True, threads=1, folder=tmp_path)
    assert fresh.row("n=1", lambda: {"seconds": 9.9}) == {"seconds": 9.9}
    stored = json.loads(bench.path.read_text())
    assert stored["environment"] == environment(threads=1)
    assert stored["environment"]["torch"]
    assert stored["rows"]["n=1"]["measured"].startswith("20")


def test_rows_from_elsewhere_are_not_mixed_in(bench: Benchmark, tmp_path: Path) -> None:
    bench.row("n=1", lambda: {"seconds": 1.5})
    stored = json.loads(bench.path.read_text())
    stored["environment"]["machine"] = "an older one"
    bench.path.write_text(json.dumps(stored))
    later = Benchmark("trial", threads=1, folder=tmp_path)
    assert later.row("n=1", lambda: {"seconds": 2.5}) == {"seconds": 2.5}


def test_portable_rows_stay_with_their_environment(tmp_path: Path) -> None:
    first = Benchmark("trial", threads=1, folder=tmp_path, portable=True)
    first.row("n=1", lambda: {"error": 0.1})
    stored = json.loads(first.path.read_text())
    stored["environment"]["machine"] = "an older one"
    first.path.write_text(json.dumps(stored))
    for key in ("n=2", "n=3"):
        later = Benchmark("trial", threads=1, folder=tmp_path, portable=True)
        assert later.row("n=1", lambda: {"error": 9.9}) == {"error": 0.1}
        later.row(key, lambda: {"error": 0.2})
    rows = json.loads(first.path.read_text())["rows"]
    assert rows["n=1"]["environment"]["machine"] == "an older one"
    assert "environment" not in rows["n=2"]
    assert list(rows) == ["n=1", "n=2", "n=3"]


def test_quick_figures_have_a_file_of_their_own(tmp_path: Path) -> None:
    assert Benchmark("trial", quick=True, threads=1, folder=tmp_path).path.name == "trial-quick.json"


def test_what_is_absent_is_skipped_with_a_word(
    bench: Benchmark, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("STRATAGP_DATA", raising=False)
    assert bench.row("a peer", lambda: {"it": peer("no_such_library")}) is None
    assert bench.row("a set", lambda: {"it": datasets.mnist()}) is None
    makers = {"here": lambda n: n, "absent": lambda n: peer("no_such_library")}
    assert bench.available(makers, 3) == {"here": 3}
    said = capsys.readouterr().out
    assert "a peer: skipped, no_such_library is not installed" in said
    assert "a set: skipped, mnist/mnist.npz is wanted, but STRATAGP_DATA" in said
    assert "absent: left out" in said
    assert not bench.path.exists()


def test_tables_show_every_column(bench: Benchmark, capsys: pytest.CaptureFixture[str]) -> None:
    bench.show("Figures", [{"n": "1", "ours": "2 ms"}, {"n": "2", "theirs": "5 ms"}], "a note")
    shown = capsys.readouterr().out
    assert all(word in shown for word in ("Figures", "ours", "theirs", "2 ms", "5 ms", "–", "a note"))


@pytest.mark.parametrize(
    ("seconds", "words"), [(2040.0, "34 min"), (4.56, "4.56 s"), (0.0123, "12.3 ms"), (5e-6, "5 µs"), (2.5e-8, "25 ns")]
)
def test_times_are_readable(seconds: float, words: str) -> None:
    assert in_words(seconds) == words


# --- the contestants ---


@pytest.mark.peer
@pytest.mark.parametrize("name", PEERS)
def test_peers_agree_on_the_log_marginal_likelihood_and_its_gradient(name: str) -> None:
    p = problem(60)
    ours = stratagp_evidence(p)
    try:
        theirs = PEERS[name](p)
    except Skip as reason:
        pytest.skip(str(reason))
    assert difference(theirs.read(theirs.run()), ours.read(ours.run())) < 1e-10


def test_fused_functions_agree_with_plain_torch() -> None:
    small = many_functions(n=20, m=7, d=5, q=3)
    double = [
        log_density_gain(40),
        distance_gain(shared_points(40)[:3], gaussian=False),
        distance_gain(shared_points(40), gaussian=True),
    ]
    single = [
        distance_gain(small[:3], gaussian=False),
        distance_gain(small, gaussian=True),
        marginals_gain(n=20, m=7, q=3),
    ]
    assert max(gain_row(runs, 1)["difference"] for runs in double) < 1e-12
    assert max(gain_row(runs, 1)["difference"] for runs in single) < 1e-5


# --- the data sets: skipped, by conftest, where they are absent ---


def test_missing_data_says_what_to_set(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("STRATAGP_DATA", raising=False)
    with pytest.raises(datasets.DataMissing, match="STRATAGP_DATA does not name a folder"):
        datasets.locate("mnist/mnist.npz")
    monkeypatch.setenv("STRATAGP_DATA", str(tmp_path))
    with pytest.raises(datasets.DataMissing, match="is not in the folder"):
        datasets.mnist()


def test_data_path_finds_files(data_path: Callable[[str], Path]) -> None:
    assert data_path("classic/snelson1d.npz").is_file()


def test_mnist() -> None:
    split = datasets.mnist()
    assert split.X_train.shape == (60000, 784)
    assert split.X_test.shape == (10000, 784)
    assert (split.X_train.min(), split.X_train.max()) == (0, 1)
    assert np.bincount(split.y_test).tolist() == [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]


@pytest.mark.parametrize("name", datasets.UCI_REGRESSION)
def test_uci_regression_tests_each_row_once(name: str) -> None:
    splits = [datasets.uci_regression(name, i) for i in range(10)]
    first = splits[0]
    n = len(first.y_train) + len(first.y_test)
    assert sum(len(split.y_test) for split in splits) == n
    tested = np.concatenate([split.y_test for split in splits])
    every = np.concatenate([first.y_train, first.y_test])
    np.testing.assert_array_equal(np.sort(tested), np.sort(every))
    assert first.X_train.dtype == first.y_train.dtype == np.float64
    assert abs(len(first.y_test) / n - 0.1) < 0.01


def test_uci_regression_has_ten_splits() -> None:
    with pytest.raises(ValueError, match="0 to 9"):
        datasets.uci_regression("yacht", 10)


@pytest.mark.parametrize(
    ("name", "inputs", "target"),
    [
        ("winequality_red", (1599, 11), (1599,)),
        ("abalone", (4177, 10), (4177,)),
        ("powerplant", (9568, 4), (9568,)),
        ("naval", (11934, 16), (11934, 2)),
    ],
)
def test_uci_extra(name: str, inputs: tuple[int, ...], target: tuple[int, ...]) -> None:
    X, y = datasets.uci_extra(name)
    assert (X.shape, y.shape) == (inputs, target)


@pytest.mark.parametrize("name", datasets.GP_DRF)
def test_gp_drf_folds_are_standardised(name: str) -> None:
    split = datasets.gp_drf_fold(name)
    np.testing.assert_allclose(split.X_train.mean(0), 0, atol=0.02)
    spread = split.X_train.std(0)
    np.testing.assert_allclose(spread[spread > 0.5], 1, atol=0.02)
    assert split.X_test.shape[1] == split.X_train.shape[1]


@pytest.mark.parametrize(
    ("load", "shape", "classes"),
    [
        (datasets.adult, (48842, 14), [37155, 11687]),
        (datasets.connect4, (67557, 42), [6449, 16635, 44473]),
        (datasets.covtype, (581012, 54), [211840, 283301, 35754, 2747, 9493, 17367, 20510]),
        (datasets.diabetes130, (101766, 47), [54864, 35545, 11357]),
    ],
)
def test_classification_tables(load: Callable[[], datasets.Table], shape: tuple[int, int], classes: list[int]) -> None:
    table = load()
    assert table.X.shape == shape
    assert np.bincount(table.y).tolist() == classes
    assert len(table.columns) == len(table.is_categorical) == shape[1]
    for name, codes in zip(table.columns, table.X.T, strict=True):
        if name in table.categories:
            assert 0 <= codes.min() <= codes.max() < len(table.categories[name])


def test_adult_knows_its_training_part() -> None:
    assert datasets.adult().n_train == 32561


def test_flights() -> None:
    table = datasets.flights()
    assert {len(table[name]) for name in ("month", "distance", "delay", "origin")} == {3_000_000}
    assert table["origin"].max() < len(table["airports"])


def test_reuters_has_the_published_split() -> None:
    documents = datasets.reuters()
    assert (len(documents["train"]), len(documents["test"])) == (9603, 3299)
    assert documents["train"][0]["topics"] == ["cocoa"]


def test_sequences() -> None:
    scop = datasets.scop()
    assert (len(scop["sequence"]), len(set(scop["scop_class"])), len(set(scop["fold"]))) == (7616, 7, 1186)
    for name, rows, length in (("promoters", 106, 57), ("splice", 3190, 60)):
        table = datasets.sequences(name)
        assert {len(sequence) for sequence in table["sequence"]} == {length}
        assert len(table["label"]) == rows


def test_sarcos() -> None:
    X, Y = datasets.sarcos()
    assert (X.shape, Y.shape) == ((4449, 21), (4449, 7))


@pytest.mark.parametrize("name", datasets.CLASSIC)
def test_classic_sets_load(name: str) -> None:
    columns = datasets.classic(name)
    assert columns
    assert all(len(values) > 10 for values in columns.values())


def test_classic_columns_are_numbers_where_they_can_be() -> None:
    boston = datasets.classic("boston")
    assert boston["medv"][:2].tolist() == [24.0, 21.6]
    assert int(np.isnan(datasets.classic("airquality")["Ozone"]).sum()) == 37
    assert datasets.classic("diamonds")["cut"][0] == "Ideal"
    with pytest.raises(ValueError, match="choose from"):
        datasets.classic("iris")


@pytest.mark.parametrize("name", datasets.GEOSTAT)
def test_geostatistics(name: str) -> None:
    rows = {"meuse": 155, "meuse_grid": 3103, "jura_pred": 259, "jura_val": 100, "jura_grid": 5957}
    assert {len(values) for values in datasets.geostat(name).values()} == {rows[name]}


def test_weather_marks_lost_readings() -> None:
    stations = datasets.weather()
    lost = {name: int(np.isnan(values).any(1).sum()) for name, (_, values) in stations.items()}
    assert lost == {"bra": 100, "cam": 0, "chi": 15, "sot": 1002}
    assert all(len(times) == 4320 for times, _ in stations.values())


def test_esol() -> None:
    table = datasets.esol()
    assert len(table["smiles"]) == 1128
    assert table["solubility"][:2].tolist() == [-0.77, -3.3]
    assert not any(smiles.endswith(" ") for smiles in table["smiles"])
