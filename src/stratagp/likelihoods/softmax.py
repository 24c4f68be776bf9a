"""Several classes, one latent function for each."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from stratagp.errors import InputError
from stratagp.likelihoods.base import Likelihood
from stratagp.types import Gaussian


class Softmax(Likelihood):
    """``p(y = c | f) = exp f_c / Σ exp f`` for labels 0, 1, …, with one latent function for each class.

    What is predicted is the mean and variance of the label in one-of-c coding: the means are the probabilities of the
    classes. Integrals are by quadrature in the nodes of the base class, the same at every call.

    Arguments:
        n_samples: for training with many classes, the number of reparameterised samples of each row that replace the
            512 nodes in the bound, new ones at each call; None for the nodes.
        generator: where those samples come from.

    >>> Softmax().predict(Gaussian(torch.tensor([[0.0, 0.0]]), torch.ones(1, 2))).mean
    tensor([[0.5000, 0.5000]])
    """

    def __init__(self, n_samples: int | None = None, generator: torch.Generator | None = None) -> None:
        super().__init__()
        if n_samples is not None and n_samples < 1:
            raise InputError(f"n_samples must be at least 1, or None for quadrature, got {n_samples}")
        self.n_samples, self.generator = n_samples, generator

    def log_prob(self, y: Float[Tensor, "n 1"], f: Float[Tensor, "*s n q"]) -> Float[Tensor, "*s n"]:
        """``f_y − log Σ exp f``."""
        return _chosen(y, f) - f.logsumexp(-1)

    def moments(self, f: Float[Tensor, "*s n q"]) -> Gaussian:
        """``p = softmax f`` and ``p (1 − p)``, of each class."""
        p = f.softmax(-1)
        return Gaussian(p, p * (1 - p))

    def expected_log_prob(self, y: Float[Tensor, "n 1"], q: Gaussian) -> Float[Tensor, "*s n"]:
        """``E f_y − E log Σ exp f``; with samples, the first exactly and the second without bias."""
        if self.n_samples is None:
            return super().expected_log_prob(y, q)
        noise = torch.randn(self.n_samples, *q.mean.shape, generator=self.generator, dtype=q.mean.dtype).to(q.mean)
        return _chosen(y, q.mean) - q.sample(noise).logsumexp(-1).mean(0)


def _chosen(y: Float[Tensor, "n 1"], f: Float[Tensor, "*s n q"]) -> Float[Tensor, "*s n"]:
    """The latent value of each row's class."""
    code = y.long()
    wrong = (code != y) | (code < 0) | (code >= f.shape[-1])
    if wrong.any():
        raise InputError(f"y must be labels 0 … {f.shape[-1] - 1}, one for each function, got {y[wrong][0].item():g}")
    return f.gather(-1, code.expand(*f.shape[:-1], 1)).squeeze(-1)
