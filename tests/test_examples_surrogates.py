"""The surrogate examples run, draw, and find what they say they find."""

import runpy
from pathlib import Path

import matplotlib
import numpy as np
import pytest

matplotlib.use("Agg")
ROOT = Path(__file__).parents[1]


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def main(name, **settings):
        results = runpy.run_path(str(ROOT / "examples" / f"{name}.py"))["main"](**settings)
        assert (tmp_path / "out" / f"{name}.png").stat().st_size > 10_000
        return results

    return main


def test_relevance_ranks_the_inputs_and_finds_the_noise(run):
    found = run("relevance")
    eta, share = found["eta"], found["relevance"]
    assert eta[0] == pytest.approx(9.8, rel=0.5)
    assert eta[0] > 100 * eta[1]
    assert eta[1] >= eta[2]
    assert share[0] > 0.99
    assert found["noise"] == pytest.approx(0.1, abs=0.02)


def test_additive_kernels_predict_where_the_gaussian_kernel_cannot(run):
    errors = run("anova", frequencies=[4])
    assert errors["given", 4] == pytest.approx(0.996, abs=0.1)
    for name in ("first order", "every order", "centred"):
        assert errors[name, 4] < 3e-4
        assert errors["Gaussian", 4] > 100 * errors[name, 4]
    assert errors["effect", 0] < 1e-3
    assert errors["effect", 1] < 1e-3


def test_calibration_regions_hold_the_truth_when_the_surrogate_is_doubted(run):
    share = run("calibration", n_designs=2, n_experiments=40)
    assert share[60, "with"] > 85
    assert share[15, "with"] > 85
    assert share[15, "with"] > share[15, "without"] + 5


def test_propagation_agrees_with_brute_force_and_known_indices(run):
    found = run("propagation")
    assert found["mean"] == pytest.approx(found["truth"][:, 0], rel=0.03)
    assert found["std"] == pytest.approx(found["truth"][:, 1], rel=0.06)
    assert found["first"] == pytest.approx([0.3139, 0.4424, 0.0], abs=0.01)
    assert found["total"] == pytest.approx([0.5576, 0.4424, 0.2437], abs=0.01)


def test_optimisation_beats_random_search_from_the_same_start(run):
    found = run("optimisation", n_seeds=2, steps=17)
    assert np.median(found["ours"][:, -1]) < 0.3 * np.median(found["theirs"][:, -1])
    assert (found["ours"] > -1e-5).all()


@pytest.mark.parametrize("name", ["relevance", "anova", "calibration", "propagation", "optimisation"])
def test_the_page_shows_the_example_as_it_is(name):
    page = (ROOT / "docs" / "examples_surrogates.md").read_text(encoding="utf-8")
    script = (ROOT / "examples" / f"{name}.py").read_text(encoding="utf-8")
    section = page.split(f"({'../examples/' + name}.py)")[1].split("\n## ")[0]
    shown = section.split("```python\n")[1].split("```")[0]
    lines = [line.strip() for line in shown.splitlines() if line.strip() and not line.startswith("#")]
    missing = [line for line in lines if line not in script]
    assert not missing
    assert (ROOT / "docs" / "images" / f"{name}.png").stat().st_size <= 120_000
