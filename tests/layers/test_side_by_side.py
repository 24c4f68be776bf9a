"""Sparse processes beside one another."""

import pytest
import torch

from stratagp import kernels as k
from stratagp.errors import InputError
from stratagp.layers import Inducing, RandomFeatures, SideBySide
from stratagp.posteriors import MixturePosterior
from stratagp.testing import check_layer

Z = torch.randn(6, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def layers():
    first, second = Inducing(k.RBF().on(0), Z, functions=2), Inducing(k.RBF(0.5).on(1), Z[:4])
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for layer in (first, second):
            layer.posterior.mean.copy_(torch.randn(layer.posterior.mean.shape, generator=generator))
            layer.posterior.scale.mul_(0.5)
    return first, second


def test_values_are_put_side_by_side_and_costs_add():
    first, second = layers()
    both, x = SideBySide(first, second), torch.randn(5, 2, dtype=torch.float64)
    belief = both(x)
    torch.testing.assert_close(belief.mean, torch.cat([first(x).mean, second(x).mean], 1))
    torch.testing.assert_close(belief.var, torch.cat([first(x).var, second(x).var], 1))
    torch.testing.assert_close(both.kl(), first.kl() + second.kl())
    assert both.functions == 3


def test_it_is_a_layer():
    check_layer(SideBySide(*layers()), Z[:3], n_draws=250)


def test_random_features_with_priors_of_their_own():
    parts = [RandomFeatures(k.RBF(scale), 2, 1, 20, generator=torch.Generator().manual_seed(0)) for scale in (0.5, 2.0)]
    both = SideBySide(*parts)
    wanted = [part.features(Z) @ part.posterior.mean.double().mT for part in parts]
    torch.testing.assert_close(both(Z).mean, torch.cat(wanted, 1))
    torch.testing.assert_close(both.at_nodes(Z, 3).var, torch.cat([part(Z).var for part in parts], 1))
    check_layer(both, Z[:3], n_draws=250)


def test_what_it_refuses():
    with pytest.raises(InputError, match="at least one layer"):
        SideBySide()
    mixture = Inducing(k.RBF(), Z, MixturePosterior(6, n_components=2))
    with pytest.raises(InputError, match="one Gaussian as posterior"):
        SideBySide(mixture)(Z)
