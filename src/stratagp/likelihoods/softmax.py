"""Several classes, one latent function for each."""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import one_hot

from stratagp.errors import InputError
from stratagp.likelihoods.base import Likelihood
from stratagp.linalg.once import first_derivative_only
from stratagp.types import Gaussian


class Softmax(Likelihood):
    """``p(y = c | f) = exp f_c / Σ exp f`` for labels 0, 1, …, with one latent function for each class.

    Predictions are the mean and variance of the label in one-hot coding: the means are the probabilities of the
    classes.

    >>> Softmax().predict(Gaussian(torch.tensor([[0.0, 0.0]]), torch.ones(1, 2))).mean
    tensor([[0.5000, 0.5000]])
    """

    of_classes = True

    discrete = True
    closed_reciprocal = True

    def log_prob(self, y: Float[Tensor, "n 1"], f: Float[Tensor, "*s n q"]) -> Float[Tensor, "*s n"]:
        """``f_y − log Σ exp f``."""
        return _chosen(y, f) - f.logsumexp(-1)

    def moments(self, f: Float[Tensor, "*s n q"]) -> Gaussian:
        """``p = softmax f`` and ``p (1 − p)``, of each class."""
        p = f.softmax(-1)
        return Gaussian(p, p * (1 - p))

    def sample(self, f: Float[Tensor, "*s n q"], generator: torch.Generator | None = None) -> Float[Tensor, "*s n 1"]:
        """Labels."""
        chosen = torch.multinomial(f.softmax(-1).flatten(0, -2), 1, generator=generator)
        return chosen.unflatten(0, f.shape[:-1]).to(f)

    def log_reciprocal(self, y: Float[Tensor, "n 1"], q: Gaussian) -> Float[Tensor, "*s n"]:
        """``log[1 + Σ_{c≠y} exp(mean_c − mean_y + ½(var_c + var_y))]``."""
        own = _chosen(y, q.mean) - 0.5 * _chosen(y, q.var)
        others = (q.mean + 0.5 * q.var).masked_fill(_is_class(y, q.mean), -torch.inf).logsumexp(-1)
        return torch.nn.functional.softplus(others - own)

    def sampled_log_prob(
        self, y: Float[Tensor, "n 1"], q: Gaussian, noise: Float[Tensor, "k *s n q"]
    ) -> Float[Tensor, "*s n"]:
        """``mean_y`` exactly, and the average of ``log Σ exp f`` over samples."""
        return _chosen(y, q.mean) - _SampledLogSumExp.apply(q.mean, q.var, noise)


class _SampledLogSumExp(torch.autograd.Function):
    """The average of ``log Σ exp(mean + √var ε)`` over samples, with the gradients ``p̄`` and ``½ mean(p ε)/√var``.

    They are computed in the same pass from the probabilities ``p`` of each sample; nothing else is kept.
    """

    @staticmethod
    def forward(ctx: Any, mean: Tensor, var: Tensor, noise: Tensor) -> Tensor:
        spread = var.sqrt()
        f = torch.addcmul(mean, spread, noise)
        top = f.amax(-1, keepdim=True)
        p = f.sub_(top).exp_()
        total = p.sum(-1, keepdim=True)
        p /= total
        ctx.save_for_backward(p.mean(0), 0.5 * torch.einsum("k...,k...->...", p, noise) / len(noise) / spread)
        return (total.log_() + top).squeeze(-1).mean(0)

    @staticmethod
    @first_derivative_only
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, None]:
        to_mean, to_var = ctx.saved_tensors
        return grad[..., None] * to_mean, grad[..., None] * to_var, None


def _is_class(y: Float[Tensor, "n 1"], f: Float[Tensor, "*s n q"]) -> Tensor:
    return one_hot(class_codes(y, f).squeeze(-1), f.shape[-1]).bool()


def class_codes(y: Float[Tensor, "n 1"], f: Float[Tensor, "*s n q"]) -> Tensor:
    """Valid labels as whole numbers, for as many classes as there are functions."""
    code = y.long()
    wrong = (code != y) | (code < 0) | (code >= f.shape[-1])
    if wrong.any():
        raise InputError(f"y must be labels 0 … {f.shape[-1] - 1}, one for each function, got {y[wrong][0].item():g}")
    return code


def _chosen(y: Float[Tensor, "n 1"], f: Float[Tensor, "*s n q"]) -> Float[Tensor, "*s n"]:
    """The latent value of each row's class."""
    return f.gather(-1, class_codes(y, f).expand(*f.shape[:-1], 1)).squeeze(-1)
