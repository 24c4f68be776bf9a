"""The latent variable model: it finds a curve, and places new rows on it."""

import pytest
import torch

from stratagp.errors import ConvergenceWarning, InputError
from stratagp.kernels import RBF, Linear
from stratagp.layers import LatentRows, Stack
from stratagp.models.gplvm import fit_gplvm, gplvm, latent_points
from stratagp.objectives import elbo
from stratagp.training import maximise

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


def bound(rows, chain, y):
    """By the bound of whole stacks, less what does not depend on the latent points."""
    stack = Stack(rows, chain.layer.layers[-1], propagate="moments")
    found = elbo(stack, chain.likelihood, torch.arange(len(y))[:, None], y)
    return found.fit - rows.kl()


def test_each_row_is_at_a_maximum_of_its_bound(fitted):
    model, chain = fitted
    for i in (0, 17, 49):
        y = Y[i : i + 1] + 0.1
        found = latent_points(chain, y)
        other = LatentRows(model.inputs.mean[i : i + 1])
        maximise(lambda rows=other, y=y: bound(rows, chain, y), other.parameters())
        attained = bound(found, chain, y)
        assert attained.item() >= bound(other, chain, y).item() - 1e-6
        for gradient in torch.autograd.grad(attained, found.parameters()):
            torch.testing.assert_close(gradient, torch.zeros_like(gradient), atol=1e-6, rtol=0)


def test_rows_do_not_depend_on_the_rows_beside_them(fitted):
    _, chain = fitted
    y = torch.cat([Y[:12] + 0.2, 3 * Y[12:20]])
    with torch.no_grad():
        together = latent_points(chain, y)
        alone = [latent_points(chain, row[None]) for row in y]
        for name in ("mean", "log_scale"):
            found = torch.cat([getattr(rows, name) for rows in alone])
            torch.testing.assert_close(getattr(together, name), found, atol=1e-7, rtol=0)


def test_too_few_evaluations_are_reported(fitted):
    with pytest.warns(ConvergenceWarning, match="5 of 5 rows had not converged after 1 eval"):
        latent_points(fitted[1], Y[:5] + 0.3, 1)


def test_the_kernel_starts_at_the_variance_of_the_rows():
    level = 1e4 * Y.var(0, correction=0).mean().item()
    assert gplvm(100 * Y, 2).kernel.variance.item() == pytest.approx(level)
    assert gplvm(100 * Y, 2, kernel=RBF(variance=2.0)).kernel.variance.item() == pytest.approx(2.0)
    start = gplvm(100 * Y, 2, kernel=RBF() + Linear())
    assert start.kernel.diag(start.inputs.mean).mean().item() == pytest.approx(level)


def test_bad_rows():
    with pytest.raises(InputError, match="are all equal"):
        gplvm(torch.ones(5, 3), 1)


def test_bad_sizes():
    with pytest.raises(InputError, match="n_components must lie between 1 and 4"):
        gplvm(Y, 5)
