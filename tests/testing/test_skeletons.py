"""The skeletons of docs/ work as they stand, and the shipped checks catch parts that do not."""

import importlib.util
import sys
from pathlib import Path

import pytest
import torch

from stratagp import ExactGP, GPRegressor
from stratagp import kernels as k
from stratagp.kernels import Kernel
from stratagp.layers import Layer
from stratagp.parameters import positive
from stratagp.recipes import choose
from stratagp.testing import check_kernel, check_layer, check_likelihood, check_recipe
from stratagp.types import Gaussian

X = torch.randn(8, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def skeleton(name, part):
    path = Path(__file__).parents[2] / "docs" / "skeletons" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(f"skeleton_{name}", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # where dataclasses look up their types
    spec.loader.exec_module(module)
    return getattr(module, part)


def test_kernel():
    cauchy = skeleton("kernel", "Cauchy")
    check_kernel(cauchy(0.7, 1.3), X)
    x = torch.tensor([[0.0], [2.0]], dtype=torch.float64)
    assert cauchy(0.5, 3.0)(x)[0, 1].item() == pytest.approx(3 / 17)
    combined = 2 * cauchy().on(0) + k.RBF(ard=2) * cauchy()
    posterior = ExactGP(combined, noise=1e-4).condition(X, X.sum(1))
    torch.testing.assert_close(posterior.marginals(X).mean[:, 0], X.sum(1), rtol=0, atol=1e-2)


def test_likelihood():
    q = Gaussian(0.3 * X[:, :1], 0.05 + 0.1 * X[:, 1:].square())
    times, grid = skeleton("likelihood", "ExponentialTimes"), torch.linspace(0, 200, 50_001, dtype=torch.float64)
    check_likelihood(times(), X[:, :1].exp(), q, support=grid)
    check_likelihood(times(), X[:, :1].exp(), Gaussian(q.mean, torch.ones_like(q.var)))

    class WrongMoments(times):
        def moments(self, f):
            return Gaussian(-7 * f, f.exp())

    class WrongDensity(times):
        def log_prob(self, y, f):
            return super().log_prob(y, f) + 1

    for wrong, message in ((WrongMoments, "mean of moments"), (WrongDensity, "sum to one")):
        with pytest.raises(AssertionError, match=message):
            check_likelihood(wrong(), X[:, :1].exp(), q, support=grid)


def test_layer():
    layer = skeleton("layer", "BayesianLinear")(2, 3)
    with torch.no_grad():
        layer.mean.copy_(X[:2, :1] + torch.tensor([0.0, 1.0, -1.0]))
        layer.log_scale.copy_(-0.5 + 0.1 * X[2:4, :1] + torch.zeros(3))
    check_layer(layer, X)
    with pytest.raises(AssertionError, match="draws miss the variance"):
        check_layer(Doubled(layer), X)


class Doubled(Layer):
    """A layer whose belief is twice as wide as its draws."""

    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        belief = self.inner(x)
        return Gaussian(belief.mean, 2 * belief.var)

    def kl(self):
        return self.inner.kl()

    def draw(self, generator=None):
        return self.inner.draw(generator)


class Broken(Kernel):
    def __init__(self, fault: str) -> None:
        super().__init__()
        self.variance = positive(1.0)
        self.fault = fault

    def forward(self, x, z):
        r2 = torch.cdist(x, z).square()
        if self.fault == "indefinite":
            return self.variance * (1 - 0.1 * r2)
        if self.fault == "asymmetric":
            return self.variance * torch.exp(-r2) * (1 + 0.1 * x[..., :1])
        if self.fault == "slightly indefinite":
            return self.variance * torch.exp(-(torch.cdist(x, z) ** 3))
        if self.fault == "transposed":
            return self.variance * torch.exp(-r2).mT
        if self.fault == "noise on squares":
            return self.variance * torch.exp(-r2) + (torch.eye(len(x)) if x.shape == z.shape else 0)
        if self.fault == "idle":
            return torch.exp(-r2)
        if self.fault == "rough":
            return self.variance * torch.exp(-torch.cdist(x, z))
        if self.fault == "gradient":
            return self.variance.detach() * torch.exp(-r2) + 0 * self.variance
        return self.variance.sum() * torch.exp(-r2)  # "function axis"

    @property
    def differentiable(self):
        return 1 if self.fault == "rough" else 0

    def diag(self, x):
        if self.fault == "diag":
            return 2 * self.variance * torch.ones(len(x), dtype=torch.float64)
        return super().diag(x)


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("indefinite", "not positive semi-definite"),
        ("asymmetric", "transposed"),
        ("slightly indefinite", "not positive semi-definite"),
        ("transposed", "must have shape"),
        ("noise on squares", "differ|part of"),
        ("idle", "does not use its parameters variance"),
        ("rough", "its functions are rough"),
        ("gradient", "parameter gradients"),
        ("diag", "not the diagonal"),
        ("function axis", "function axis"),
    ],
)
def test_faults_are_found(fault, message):
    with pytest.raises(AssertionError, match=message):
        check_kernel(Broken(fault), X)


class OtherFormula(k.RBF):
    """A kernel whose plain formula is that of another."""

    def plain(self, x, z):
        return 1.01 * super().plain(x, z)


def test_a_plain_formula_of_another_kernel_is_found():
    with pytest.raises(AssertionError, match=r"plain\(x, z\) is not k\(x, z\)"):
        check_kernel(OtherFormula(0.7), X)


def test_recipe():
    before = dict(choose.WAYS)
    try:
        nearest = skeleton("recipe", "NearestRecipe")
        check_recipe(nearest(k.Matern(2.5, ard=2)))
        rows = X.numpy()
        gp = GPRegressor(inference="nearest").fit(rows, rows.sum(1))
        low, high = gp.predict_interval(rows)
        assert ((low < rows.sum(1)) & (rows.sum(1) < high)).all()
    finally:
        choose.WAYS.clear()
        choose.WAYS.update(before)
