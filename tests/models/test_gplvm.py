"""The latent variable model: it finds a curve, and places new rows on it."""

import pytest
import torch

from stratagp.errors import InputError
from stratagp.models.gplvm import fit_gplvm, gplvm, latent_points

pytestmark = pytest.mark.filterwarnings("ignore::stratagp.errors.ConvergenceWarning")  # stopped early on purpose

T = torch.linspace(-1.2, 1.2, 50, dtype=torch.float64)[:, None]
NOISE = 0.05 * torch.randn(50, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
CURVE = torch.cat([T.sin(), T.cos(), (2 * T).sin(), T.tanh()], 1)
Y = CURVE - CURVE.mean(0) + NOISE
ROWS = torch.arange(50)[:, None]


@pytest.fixture(scope="module")
def fitted():
    model = gplvm(Y, 2, 10)
    fit_gplvm(model, Y, 100)
    return model, model.condition(ROWS, Y)


def test_the_parameter_of_the_curve_is_found(fitted):
    model, chain = fitted
    relevant = model.kernel.lengthscale.argmin()
    points = model.inputs.mean[:, relevant].detach()
    assert abs(torch.corrcoef(torch.stack([points, T[:, 0]]))[0, 1]) > 0.97
    found = chain.layer.layers[-1](model.inputs.mean).mean
    assert (found - (CURVE - CURVE.mean(0))).square().mean().sqrt() < 0.05


def test_known_rows_return_to_their_points(fitted):
    model, chain = fitted
    found = latent_points(chain, Y[::5])
    torch.testing.assert_close(found.mean.detach(), model.inputs.mean[::5].detach(), atol=0.1, rtol=0)
    before = [p.clone() for p in chain.parameters()]
    latent_points(chain, Y[:2])
    assert all(torch.equal(a, b) for a, b in zip(before, chain.parameters(), strict=True))


def test_bad_sizes():
    with pytest.raises(InputError, match="n_components must lie between 1 and 4"):
        gplvm(Y, 5)
