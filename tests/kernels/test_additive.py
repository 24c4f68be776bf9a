import itertools

import numpy as np
import pytest
import torch

from stratagp import ExactGP
from stratagp import kernels as k
from stratagp.errors import InputError
from tests.kernels.case import points


def test_components_add_up_to_the_kernel():
    kernel = k.Additive(k.RBF(0.7), variance=[0.5, 0.3, 0.2], dim=3)
    x = points(6, 3)
    subsets = [s for n in (1, 2, 3) for s in itertools.combinations(range(3), n)]
    total = sum(kernel.component(s)(x) for s in subsets)
    torch.testing.assert_close(total, kernel(x), rtol=1e-12, atol=1e-12)


def test_effects_of_a_fitted_model_add_up_to_its_mean():
    x = points(40, 2)
    y = torch.sin(2 * x[:, 0]) + x[:, 1].square() + 0.5 * x[:, 0] * x[:, 1]
    kernel = k.Additive(k.RBF(1.0), dim=2)
    posterior = ExactGP(kernel, noise=1e-3).condition(x, y)
    effects = {s: posterior.component(kernel.component(s), x).mean for s in [(0,), (1,), (0, 1)]}
    torch.testing.assert_close(sum(effects.values()), posterior.marginals(x).mean, rtol=1e-8, atol=1e-8)


def test_first_order_extrapolates_where_the_rbf_cannot():
    """The lecture's L-shaped region: f = sin(2πx₁) + cos(2πx₂), seen only where x₁ < 0.4 or x₂ < 0.4."""
    rng = np.random.default_rng(0)
    x = rng.random((400, 2))
    x = torch.from_numpy(x[(x[:, 0] < 0.4) | (x[:, 1] < 0.4)][:100])
    test = 0.5 + 0.5 * torch.from_numpy(rng.random((200, 2)))
    f = lambda p: torch.sin(2 * torch.pi * p[:, 0]) + torch.cos(2 * torch.pi * p[:, 1])  # noqa: E731

    def error(kernel):
        belief = ExactGP(kernel, noise=1e-8).condition(x, f(x)).marginals(test)
        return (belief.mean[:, 0] - f(test)).square().mean().sqrt().item()

    assert error(k.RBF(0.3)) > 0.1
    assert error(k.Additive(k.RBF(0.3), max_order=1, dim=2)) < 1e-2


def test_columns_may_come_later_and_kernels_may_differ():
    late = k.Additive(k.RBF(0.7), max_order=2)
    with pytest.raises(InputError, match=r"kernel\.bind\(3\)"):
        late(points(4, 3))
    torch.testing.assert_close(late.bind(3)(points(4, 3)), k.Additive(k.RBF(0.7), 2, dim=3)(points(4, 3)))
    mixed = k.Additive([k.RBF(0.7), k.Linear()], max_order=1)
    x = points(4, 2)
    torch.testing.assert_close(mixed(x), k.RBF(0.7)(x[:, :1]) + x[:, 1:] @ x[:, 1:].mT)
    with pytest.raises(InputError, match="2 columns, but the points have 3"):
        mixed(points(4, 3))
    with pytest.raises(InputError, match="1 to 2 different columns"):
        late.component([0, 0])
