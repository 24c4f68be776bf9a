"""The hand-written gradient of the sampled softmax, and its reciprocal, against plain formulas."""

import pytest
import torch
from torch.autograd import gradcheck
from torch.nn.functional import cross_entropy

from stratagp.errors import InputError, UnsupportedError
from stratagp.likelihoods import Sampled, Softmax
from stratagp.types import Gaussian

G = torch.Generator().manual_seed(0)
MEAN = 2 * torch.randn(5, 4, generator=G, dtype=torch.float64)
VAR = 0.1 + torch.rand(5, 4, generator=G, dtype=torch.float64)
NOISE = torch.randn(7, 5, 4, generator=G, dtype=torch.float64)
Y = torch.tensor([0.0, 3.0, 1.0, 2.0, 0.0], dtype=torch.float64)[:, None]


def leaves(*tensors):
    return [t.clone().requires_grad_() for t in tensors]


def plain(mean, var, noise):
    """The mean over samples of ``mean_y − log Σ exp f``, by torch alone."""
    f = mean + var.sqrt() * noise
    chosen = mean.gather(-1, Y.long().expand(*mean.shape[:-1], 1)).squeeze(-1)
    return chosen - f.logsumexp(-1).mean(0)


def test_fused_gradient_passes_gradcheck():
    mean, var = leaves(MEAN, VAR)
    assert gradcheck(lambda m, v: Softmax().sampled_log_prob(Y, Gaussian(m, v), NOISE), (mean, var), atol=1e-8)


@pytest.mark.parametrize("axes", [(), (3,), (2, 3)])
def test_fused_gradient_is_that_of_autograd_for_any_sample_axes(axes):
    g = torch.Generator().manual_seed(1)
    mean, var = MEAN + torch.randn(*axes, 5, 4, generator=g).double(), VAR.expand(*axes, 5, 4)
    noise = torch.randn(7, *axes, 5, 4, generator=g, dtype=torch.float64)
    weight = torch.randn(*axes, 5, generator=g, dtype=torch.float64)
    results = []
    for ask in (lambda m, v: Softmax().sampled_log_prob(Y, Gaussian(m, v), noise), lambda m, v: plain(m, v, noise)):
        own = leaves(mean, var)
        value = ask(*own)
        results.append((value.detach(), *torch.autograd.grad((weight * value).sum(), own)))
    for ours, truth in zip(*results, strict=True):
        torch.testing.assert_close(ours, truth, rtol=1e-11, atol=1e-13)


def test_samples_average_to_the_mean_log_density_less_the_noise_of_the_own_class():
    noise = torch.cat([NOISE, -NOISE])  # the own class's noise then averages to zero
    q = Gaussian(MEAN, VAR)
    labels = Y[:, 0].long()
    truth = -torch.stack([cross_entropy(f, labels, reduction="none") for f in q.sample(noise)]).mean(0)
    torch.testing.assert_close(Softmax().sampled_log_prob(Y, q, noise), truth, rtol=1e-12, atol=1e-12)


def test_large_values_do_not_overflow_and_single_precision_is_kept():
    mean, var = leaves(100 * MEAN.float(), VAR.float())
    value = Softmax().sampled_log_prob(Y.float(), Gaussian(mean, var), NOISE.float())
    assert value.dtype == torch.float32
    torch.testing.assert_close(value.double(), plain(100 * MEAN, VAR, NOISE), rtol=1e-5, atol=1e-4)
    value.sum().backward()
    assert mean.grad.isfinite().all()
    assert var.grad.isfinite().all()


def test_the_variance_at_its_least_has_a_finite_gradient():
    mean, var = leaves(MEAN.float(), torch.full((5, 4), 1e-10))
    Softmax().sampled_log_prob(Y.float(), Gaussian(mean, var), NOISE.float()).sum().backward()
    assert var.grad.isfinite().all()
    truth = torch.nn.functional.one_hot(Y[:, 0].long(), 4) - MEAN.softmax(-1)
    torch.testing.assert_close(mean.grad.double(), truth, rtol=0, atol=1e-4)


def test_second_derivatives_are_refused():
    mean, var = leaves(MEAN, VAR)
    value = Softmax().sampled_log_prob(Y, Gaussian(mean, var), NOISE).sum()
    with pytest.raises(UnsupportedError, match="first derivatives only"):
        torch.autograd.grad(value, mean, create_graph=True)


def test_the_wrapper_asks_for_it():
    sampled = Sampled(Softmax(), 9, torch.Generator().manual_seed(4))
    noise = torch.randn(9, 5, 4, generator=torch.Generator().manual_seed(4), dtype=torch.float64)
    torch.testing.assert_close(
        sampled.expected_log_prob(Y, Gaussian(MEAN, VAR)), plain(MEAN, VAR, noise), rtol=1e-12, atol=1e-12
    )


def test_reciprocal_is_the_sum_over_the_other_classes():
    truth = torch.stack(
        [
            (1 + sum((m[c] - m[y] + 0.5 * (v[c] + v[y])).exp() for c in range(4) if c != y)).log()
            for m, v, y in zip(MEAN, VAR, Y[:, 0].long().tolist(), strict=True)
        ]
    )
    torch.testing.assert_close(Softmax().log_reciprocal(Y, Gaussian(MEAN, VAR)), truth, rtol=1e-12, atol=0)
    mean, var = leaves(MEAN, VAR)
    assert gradcheck(lambda m, v: Softmax().log_reciprocal(Y, Gaussian(m, v)), (mean, var), atol=1e-8)
    large = Softmax().log_reciprocal(Y.float(), Gaussian(300 * MEAN.float(), VAR.float()))
    assert large.isfinite().all()


@pytest.mark.parametrize("label", [-1.0, 4.0, 0.5])
def test_labels_are_checked_in_every_formula(label):
    wrong, q = torch.full((5, 1), label, dtype=torch.float64), Gaussian(MEAN, VAR)
    for ask in (
        lambda: Softmax().log_prob(wrong, MEAN),
        lambda: Softmax().log_reciprocal(wrong, q),
        lambda: Softmax().sampled_log_prob(wrong, q, NOISE),
    ):
        with pytest.raises(InputError, match="labels 0 … 3"):
            ask()
