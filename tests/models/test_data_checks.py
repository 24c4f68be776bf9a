"""Data that cannot be used are refused by argument, place and remedy; data that can be used are."""

import re

import numpy as np
import pandas
import pytest
import torch

from stratagp import ExactGP
from stratagp import kernels as k
from stratagp.errors import InputError, NumericalWarning

F64 = torch.float64


def data(n=12):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(n, 2))
    return torch.from_numpy(x), torch.from_numpy(np.sin(x[:, 0]) + 0.3 * x[:, 1])


def spoilt(values, place, by=torch.nan):
    values = values.clone()
    values[place] = by
    return values


X, Y = data()
WHERE = "{} has NaN or infinite values, the first in {}: remove or fill those rows first"


@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        (
            X[:, 0],
            Y,
            "x must have one point in each row, shape (n, d), got shape (12,); for a single column use x[:, None]",
        ),
        (X[None], Y, "x must have shape (n, d), one point in each row, got (1, 12, 2)"),
        (X, Y[:5], "y must be (n,) with a value for each row of x, n ≥ 1; got x (12, 2) and y (5,)"),
        (X[:0], Y[:0], "n ≥ 1; got x (0, 2) and y (0,)"),
        (X, Y[:, None], "got x (12, 2) and y (12, 1); write y[:, 0]"),
        (X, torch.stack([Y, Y], 1), "and y (12, 2); pass one column at a time, y[:, j]"),
        (X, Y[0], "y must be (n,)"),
        (spoilt(X, (3, 1)), Y, WHERE.format("x", "row 3, column 1")),
        (spoilt(X, (7, 0), -torch.inf), Y, WHERE.format("x", "row 7, column 0")),
        (X, spoilt(Y, 4), WHERE.format("y", "row 4")),
        (X, spoilt(Y, 0, torch.inf), WHERE.format("y", "row 0")),
        (np.array([["a", "b"]]), Y[:1], "x must hold numbers, got <U1: encode other columns as numbers first"),
        (X, ["no"] * 12, "y must hold numbers, got <U2"),
        (None, Y, "x must hold numbers, got object"),
    ],
)
def test_bad_data_are_named(x, y, message):
    with pytest.raises(InputError, match=re.escape(message)):
        ExactGP(k.RBF()).condition(x, y)


def test_columns_of_a_frame_are_called_by_name():
    frame = pandas.DataFrame(X.numpy().copy(), columns=["depth", "lead"])
    frame.loc[5, "lead"] = np.nan
    with pytest.raises(InputError, match="x has NaN or infinite values, the first in row 5, column 'lead'"):
        ExactGP(k.RBF()).condition(frame, Y)
    targets = pandas.DataFrame({"zinc": Y, "nickel": spoilt(Y, 2)})
    with pytest.raises(InputError, match="y has NaN or infinite values, the first in row 2, column 'nickel'"):
        ExactGP(k.RBF()).condition_each(X, targets)


@pytest.mark.parametrize("y", [torch.zeros(12, 2, 2), torch.zeros(12, 0), torch.zeros(11, 2)])
def test_shapes_of_several_targets(y):
    message = f"y must be (n,) or (n, q) with a value for each row of x, n ≥ 1; got x (12, 2) and y {tuple(y.shape)}"
    for act in (ExactGP(k.RBF()).log_evidence, ExactGP(k.RBF()).log_leave_one_out, ExactGP(k.RBF()).condition_each):
        with pytest.raises(InputError, match=re.escape(message)):
            act(X, y)


@pytest.mark.parametrize(
    ("noise", "message"),
    [
        (torch.ones(3), "noise must be one variance ≥ 0 for each of 12 rows, got shape (3,)"),
        (torch.ones(12, 1), "noise must be one variance ≥ 0 for each of 12 rows, got shape (12, 1)"),
        (spoilt(torch.ones(12), 6, -2.0), "noise must be one variance ≥ 0 for each of 12 rows, got -2 in row 6"),
        (spoilt(torch.ones(12), 6), WHERE.format("noise", "row 6")),
    ],
)
def test_noise_of_each_row_is_checked(noise, message):
    gp = ExactGP(k.RBF())
    for act in (gp.condition, gp.log_evidence, gp.condition(X, Y).condition):
        with pytest.raises(InputError, match=re.escape(message)):
            act(X, Y, noise)


ASK = ["mean", "variance", "marginals", "covariance", "sample", "gradient"]


@pytest.mark.parametrize("ask", ASK)
def test_predictions_want_the_same_columns(ask):
    posterior = ExactGP(k.RBF()).condition(X, Y)
    question = getattr(posterior, ask)
    told = "x has 3 columns, but the training data had 2: give the same columns in the same"
    with pytest.raises(InputError, match=told):
        question(torch.zeros(4, 3))
    with pytest.raises(InputError, match=re.escape("x must have one point in each row, shape (n, d), got shape (2,)")):
        question(X[0])
    with pytest.raises(InputError, match=WHERE.format("x", "row 1, column 0")):
        question(spoilt(X[:3], (1, 0)))


def test_more_data_want_the_same_columns():
    posterior = ExactGP(k.RBF()).condition(X, Y)
    with pytest.raises(InputError, match="x has 1 columns, but the training data had 2"):
        posterior.condition(X[:, :1], Y)
    with pytest.raises(InputError, match="x has 3 columns, but the training data"):
        posterior.draw(10)(torch.zeros(4, 3))


def test_one_row_is_enough():
    gp = ExactGP(k.RBF(0.8, 2.0), noise=0.5)
    x, y = torch.tensor([[0.3, 0.1]], dtype=F64), torch.tensor([1.5], dtype=F64)
    posterior = gp.condition(x, y)
    assert posterior.mean(x).item() == pytest.approx(2.0 / 2.5 * 1.5, rel=1e-12)
    assert posterior.variance(x).item() == pytest.approx(2.0 - 4.0 / 2.5, rel=1e-12)
    alone = torch.distributions.Normal(torch.zeros((), dtype=F64), 2.5**0.5).log_prob(y).item()
    assert gp.log_evidence(x, y).item() == pytest.approx(alone, rel=1e-12)
    assert gp.log_leave_one_out(x, y).item() == pytest.approx(alone, rel=1e-12)
    assert posterior.leave_one_out().mean.item() == pytest.approx(0, abs=1e-12)


def test_no_rows_to_predict():
    belief = ExactGP(k.RBF()).condition(X, Y).marginals(X[:0])
    assert belief.mean.shape == belief.var.shape == (0, 1)


def test_duplicates_without_noise_are_repaired_aloud():
    x, y = X.repeat(3, 1), Y.repeat(3)
    gp = ExactGP(k.RBF(0.6), noise=0)
    told = "the covariance of RBF.* is numerically singular; 1e-10 of its mean diagonal was added .*near-duplicate rows"
    with pytest.warns(NumericalWarning, match=told):
        posterior = gp.condition(x, y)
    torch.testing.assert_close(posterior.mean(X), Y, rtol=0, atol=1e-6)
    with pytest.warns(NumericalWarning, match=told):
        gp.log_evidence(x, y)


def test_duplicates_with_noise_are_averaged_in_silence():
    x, y = torch.cat([X, X[:1]]), torch.cat([Y, Y[:1] + 0.2])
    posterior = ExactGP(k.RBF(0.6), noise=1e-4).condition(x, y)
    assert posterior.mean(X[:1]).item() == pytest.approx(Y[0].item() + 0.1, abs=1e-3)


def test_contradictions_without_noise_are_refused():
    x, y = torch.cat([X, X[4:5]]), torch.cat([Y, Y[4:5] + 0.2])
    gp, told = (
        ExactGP(k.RBF(0.6), noise=0),
        "rows 4 and 12 of x are equal but differ in y, and have no noise: set",
    )
    for act in (gp.condition, gp.log_evidence, gp.log_leave_one_out):
        with pytest.raises(InputError, match=told):
            act(x, y)
    with pytest.raises(InputError, match=told):
        gp.condition_each(x, torch.stack([torch.zeros_like(y), y], 1))
    noise = torch.zeros(13, dtype=F64)
    noise[12] = 1e-4
    assert gp.condition(x, y, noise).mean(X[4:5]).item() == pytest.approx(Y[4].item(), abs=1e-6)


@pytest.mark.parametrize("scale", [1e-6, 1e6])
def test_targets_of_any_scale(scale):
    """A process of variance ``s²`` for targets times ``s`` says ``s`` times the same."""
    plain = ExactGP(k.RBF(0.8, 1.0), noise=0.1).condition(X, Y)
    scaled = ExactGP(k.RBF(0.8, scale**2), noise=0.1 * scale**2).condition(X, scale * Y)
    torch.testing.assert_close(scaled.mean(X) / scale, plain.mean(X), rtol=1e-9, atol=1e-9)
    assert scaled.log_evidence().item() == pytest.approx(plain.log_evidence().item() - 12 * np.log(scale), rel=1e-9)


def test_columns_of_very_different_scale():
    stretch = torch.tensor([1e8, 1e-8], dtype=F64)
    plain = ExactGP(k.RBF([0.8, 1.5]), noise=0.1).condition(X, Y)
    scaled = ExactGP(k.RBF([0.8e8, 1.5e-8]), noise=0.1).condition(X * stretch, Y)
    torch.testing.assert_close(scaled.mean(X * stretch + 0), plain.mean(X), rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize("column", [-1, 2, 0.0, True, "a"])
def test_columns_of_derivatives_are_checked(column):
    with pytest.raises(InputError, match="column must be"):
        ExactGP(k.RBF()).condition(X, Y).derivative(column)
