"""Metrics of classes against scikit-learn, scipy's binomial intervals and simulations."""

import numpy as np
import pytest
import sklearn.metrics as peer
from scipy.integrate import quad
from scipy.stats import binomtest, norm

from stratagp import metrics
from stratagp.errors import InputError
from stratagp.metrics.calibration import binomial_interval

RNG = np.random.default_rng(1)
P = RNG.dirichlet([1.0, 2.0, 0.7], size=400)
Y = np.array([RNG.choice(3, p=row) for row in P])
NAMES = np.array(["c", "a", "b"])  # not in the order of the alphabet


def test_scores_against_scikit_learn():
    assert metrics.log_loss(Y, P) == pytest.approx(peer.log_loss(Y, P), rel=1e-12)
    assert metrics.brier(Y, P) == pytest.approx(np.mean(np.sum((P - np.eye(3)[Y]) ** 2, 1)), rel=1e-12)
    two, p = Y > 0, P[:, 1:].sum(1)
    assert metrics.log_loss(two, p, classes=[False, True]) == pytest.approx(peer.log_loss(two, p), rel=1e-12)
    assert metrics.brier(two, p, [False, True]) == pytest.approx(2 * peer.brier_score_loss(two, p), rel=1e-12)


def test_labels_follow_the_order_of_classes():
    assert metrics.log_loss(NAMES[Y], P, classes=NAMES) == pytest.approx(metrics.log_loss(Y, P), rel=1e-12)
    assert metrics.brier(NAMES[Y], P, NAMES) == pytest.approx(metrics.brier(Y, P), rel=1e-12)
    assert metrics.ece(NAMES[Y], P, NAMES, of="a") == pytest.approx(metrics.ece(Y, P, of=1), rel=1e-12)


def test_an_impossible_label_costs_infinitely():
    assert metrics.log_loss([1], [[1.0, 0.0]]) == np.inf


@pytest.mark.parametrize("average", ["macro", "micro", "weighted"])
def test_f1_against_scikit_learn(average):
    guess = NAMES[P.argmax(1)]
    truth = peer.f1_score(NAMES[Y], guess, average=average)
    assert metrics.f1(NAMES[Y], guess, average) == pytest.approx(truth, rel=1e-12)
    each = peer.f1_score(NAMES[Y], guess, average=None)
    assert metrics.f1(NAMES[Y], guess, "none") == pytest.approx(each, rel=1e-12)
    assert metrics.f1(NAMES[Y], guess, positive="c") == pytest.approx(each[2], rel=1e-12)


def test_bins_of_reliability():
    """By hand, with the intervals of scipy."""
    said = P[:, 1]
    found = metrics.reliability(Y, P, of=1, bins=5, level=0.9)
    assert found.rows.sum() == 400
    for b in range(5):
        rows = (said > b / 5) & (said <= (b + 1) / 5)
        ends = binomtest(int((Y[rows] == 1).sum()), int(rows.sum())).proportion_ci(0.9, "exact")
        expected = [rows.sum(), said[rows].mean(), (Y[rows] == 1).mean(), ends.low, ends.high]
        assert [part[b] for part in found[1:]] == pytest.approx(expected, rel=1e-9)
    empty = metrics.reliability([1, 0], [0.9, 0.95], of=1, bins=2)
    assert np.isnan([empty.share[0], empty.lower[0], empty.upper[0]]).all()


def test_binomial_intervals_agree_with_scipy():
    hits, n = np.array([0, 3, 7, 930]), np.array([7, 7, 7, 1000])
    found = np.transpose(binomial_interval(hits, n, 0.9))
    expected = [binomtest(int(k), int(of)).proportion_ci(0.9, "exact") for k, of in zip(hits, n, strict=True)]
    np.testing.assert_allclose(found, expected, rtol=1e-9)


def test_calibration_error_by_hand():
    found = metrics.reliability(Y, P, bins=10)
    by_hand = np.nansum(found.rows / 400 * np.abs(found.share - found.probability))
    assert metrics.ece(Y, P, bins=10) == pytest.approx(by_hand, rel=1e-12)
    top = P.max(1)
    assert found.share[found.rows > 0] @ found.rows[found.rows > 0] == (P.argmax(1) == Y).sum()
    assert metrics.ece(P.argmax(1), P, bins=1) == pytest.approx(1 - top.mean(), rel=1e-12)


@pytest.mark.parametrize(("shift", "least"), [(0.1, 0.95), (0.0, 0.93)])
def test_the_interval_of_the_calibration_error_covers_it(shift, least):
    """Of 400 repetitions with an error of 0.1, and of none, which is the hard case: 0.95 less two standard errors."""
    rng, covered = np.random.default_rng(2), 0
    truth, p = np.repeat([0.6, 0.3, 0.9], 150), np.repeat([0.6 + shift, 0.3 - shift, 0.9 - shift], 150)
    for _ in range(400):
        low, high = metrics.ece_interval(rng.random(450) < truth, p, [False, True], of=True, n_draws=300)
        covered += low - 1e-12 <= shift <= high
    assert covered / 400 >= least


def test_bhattacharyya_distance_of_gaussians():
    """``−ln ∫ √(p q)`` by quadrature, and none below a variance of 1e-12."""
    m1, v1, m2, v2 = 0.3, 0.8, 1.7, 2.5
    overlap, _ = quad(lambda x: np.sqrt(norm.pdf(x, m1, v1**0.5) * norm.pdf(x, m2, v2**0.5)), -20, 20)
    assert metrics.bhattacharyya([m1], [v1], [m2], [v2])[0] == pytest.approx(-np.log(overlap), rel=1e-8)
    assert np.isfinite(metrics.bhattacharyya([0.0], [0.0], [1.0], [0.0])).all()


def test_the_margin_is_between_the_two_most_probable():
    mean, var = RNG.normal(size=(400, 3)), RNG.random((400, 3))
    found = metrics.bhattacharyya_margin(P, mean, var)
    for row in (0, 17, 399):
        _, second, first = np.argsort(P[row])
        one, other = ([mean[row, c]] for c in (first, second))
        truth = metrics.bhattacharyya(one, [var[row, first]], other, [var[row, second]])
        assert found[row] == pytest.approx(truth[0], rel=1e-12)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: metrics.log_loss([0, 1], [[0.5, 0.5]]), "y has 2 rows, but probability has 1"),
        (lambda: metrics.log_loss([0], [[0.5, 0.6]]), r"sum to one in each row; row 0 is \[0.5, 0.6\]"),
        (lambda: metrics.brier([0], [[1.2, -0.2]]), "must be ≥ 0"),
        (lambda: metrics.brier([2], [[0.5, 0.5]]), "y has the label 2, which is not among classes"),
        (lambda: metrics.brier(["a"], [[0.5, 0.5]]), "y has .*not among classes|another type"),
        (lambda: metrics.ece([0], [[0.5, 0.5]], classes=["a"]), "classes must name each of the 2 columns"),
        (lambda: metrics.ece([0], [[0.5, 0.5]], of=7), "of must be one of the classes"),
        (lambda: metrics.ece([0], [[0.5, 0.5]], bins=0), "bins must be a whole number"),
        (lambda: metrics.f1([0], [0], average="mean"), "average must be one of"),
        (lambda: metrics.f1([0, 1], [0]), "y has 2 rows, but predicted has 1"),
        (lambda: metrics.f1([0], [0], positive=3), "positive must be a label .*, got 3"),
        (lambda: metrics.bhattacharyya_margin(P, P, P[:, :2]), r"var \(400, 2\)"),
        (lambda: metrics.bhattacharyya([0.0], [-1.0], [0.0], [1.0]), "var must not be negative"),
    ],
)
def test_errors_name_the_argument(call, message):
    with pytest.raises(InputError, match=message):
        call()
