"""The Gaussian process regression network: outputs mix node functions with weights that depend on the input."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from stratagp.errors import InputError
from stratagp.likelihoods.base import Likelihood, log_average
from stratagp.likelihoods.gaussian import GaussianNoise
from stratagp.likelihoods.quadrature import normal_nodes
from stratagp.likelihoods.single import peak_integral
from stratagp.parameters import Parameter, Value, positive
from stratagp.types import Gaussian

_SPIKE, _FAR = 129, 7.0  # points around the zero of a node, and how far they reach in its standard deviations
_WIDE = 10.0  # standard deviations from which a spike is as wide as the whole belief


class GPRN(Likelihood):
    """``y = W f + ε`` with latent weights ``W``, p × k, and nodes ``f``, k (Wilson, Knowles and Ghahramani 2012).

    **Layout** of the k (p + 1) latent functions: first ``W`` row by row, ``W_pq`` at ``p k + q``, then ``f₁ … f_k``.
    The expected log density is exact, because it needs only the first two moments of ``W f``. With all means at
    zero the gradients by the means of ``W`` and ``f`` both vanish: start those of ``W`` at one or at random.

    Arguments:
        n_nodes: the number k of node functions.
        noise: a variance, one for all outputs or one for each.

    >>> likelihood = GPRN(n_nodes=2, noise=0.1)
    >>> likelihood.functions(3)
    8
    >>> likelihood.moments(torch.tensor([[1.0, 2.0, 3.0, 4.0, 10.0, 1.0]])).mean  # W = (1 2; 3 4), f = (10, 1)
    tensor([[12., 34.]])
    """

    scalable = True

    noise: Any

    def __init__(self, n_nodes: int = 1, noise: Value | Parameter = 0.1) -> None:
        super().__init__()
        if n_nodes < 1:
            raise InputError(f"n_nodes must be at least 1, got {n_nodes}")
        self.n_nodes = n_nodes
        self.noise = positive(noise, name="noise")
        self.observed = GaussianNoise(self.parameter("noise"))

    def functions(self, outputs: int) -> int:
        """``k (p + 1)``."""
        return self.n_nodes * (outputs + 1)

    def parts(self, f: Float[Tensor, "*s n q"]) -> tuple[Float[Tensor, "*s n p k"], Float[Tensor, "*s n k"]]:
        """The weights and the nodes among latent values (or among their variances)."""
        outputs, rest = divmod(f.shape[-1], self.n_nodes)
        if rest or outputs < 2:
            raise InputError(
                f"a GPRN of {self.n_nodes} nodes needs {self.n_nodes}·(outputs + 1) latent functions, got {f.shape[-1]}"
            )
        weights, nodes = f.split([f.shape[-1] - self.n_nodes, self.n_nodes], -1)
        return weights.unflatten(-1, (outputs - 1, self.n_nodes)), nodes

    def log_prob(self, y: Float[Tensor, "n p"], f: Float[Tensor, "*s n q"]) -> Float[Tensor, "*s n"]:
        """``−½ Σ_p [log 2π noise_p + (y − W f)_p²/noise_p]``."""
        return self.observed.log_prob(y, self._mix(f))

    def moments(self, f: Float[Tensor, "*s n q"]) -> Gaussian:
        """``W f`` and the noise."""
        return self.observed.moments(self._mix(f))

    def cdf(self, y: Float[Tensor, "*s n p"], f: Float[Tensor, "*s n q"]) -> Float[Tensor, "*s n p"]:
        """``Φ((y − W f)/√noise)``."""
        return self.observed.cdf(y, self._mix(f))

    def sample(self, f: Float[Tensor, "*s n q"], generator: torch.Generator | None = None) -> Float[Tensor, "*s n p"]:
        """``W f + √noise ε``."""
        return self.observed.sample(self._mix(f), generator)

    def expected_log_prob(self, y: Float[Tensor, "n p"], q: Gaussian) -> Float[Tensor, "*s n"]:
        """``−½ Σ_p [log 2π noise_p + ((y − E W f)_p² + Var(W f)_p)/noise_p]``."""
        return self.observed.expected_log_prob(y, self.mixed(q))

    def log_predictive(self, y: Float[Tensor, "n p"], q: Gaussian) -> Float[Tensor, "*s n"]:
        """``log E_f Π_p N(y; E[W] f, Var[W] f² + noise)_p``: quadrature over the nodes, exact in the weights."""
        if self.n_nodes == 1:
            return self._over_one_node(lambda z: self.observed.log_predictive(y, self._at(q, z)), q)
        given, log_weights = self._given_nodes(q)
        return log_average(self.observed.log_predictive(y, given), log_weights)

    def predict(self, q: Gaussian) -> Gaussian:
        """``E W f`` and ``Var(W f) + noise``, exactly."""
        return self.observed.predict(self.mixed(q))

    def mixed(self, q: Gaussian) -> Gaussian:
        """``E(W f)_p = Σ_q E W_pq E f_q`` and ``Var(W f)_p = Σ_q [E W² E f² − (E W)²(E f)²]``, each ``*s n p``."""
        (w, f), (w_var, f_var) = self.parts(q.mean), self.parts(q.var)
        f, f_var = f.unsqueeze(-1), f_var.unsqueeze(-1)
        return Gaussian((w @ f).squeeze(-1), (w_var @ (f.square() + f_var) + w.square() @ f_var).squeeze(-1))

    def covariance(self, q: Gaussian) -> Float[Tensor, "*s n p p"]:
        """The covariance of the outputs of a row: ``Σ_q E W_pq E W_p'q Var f_q`` off the diagonal, variances on it."""
        w, (_, f_var) = self.parts(q.mean)[0], self.parts(q.var)
        shared = w @ (w * f_var.unsqueeze(-2)).mT
        return shared + torch.diag_embed(self.predict(q).var - shared.diagonal(dim1=-2, dim2=-1))

    def _mix(self, f: Float[Tensor, "*s n q"]) -> Float[Tensor, "*s n p"]:
        weights, nodes = self.parts(f)
        return (weights @ nodes.unsqueeze(-1)).squeeze(-1)

    def _given_nodes(self, q: Gaussian) -> tuple[Gaussian, Float[Tensor, " k"]]:
        """The belief about ``W f`` for nodes at quadrature points, in a new first axis, and the points' log weights."""
        points, log_weights = normal_nodes(self.n_nodes, q.mean)
        return self._at(q, points.reshape(len(points), *[1] * (q.mean.dim() - 1), -1)), log_weights

    def _over_one_node(self, log_values: Callable[[Tensor], Tensor], q: Gaussian) -> Float[Tensor, "*s n"]:
        """``log E exp(log_values)`` over the node, whose density has a spike at zero if weights are uncertain.

        Points that crowd around the zero of the node are then added to those around the peak.
        """
        (_, mean), (w_var, var) = self.parts(q.mean.detach()), self.parts(q.var.detach())
        noise, deviation = self.noise.detach().to(mean), var.sqrt()
        width = (noise / w_var.squeeze(-1)).sqrt().amin(-1, keepdim=True) / deviation
        plain = peak_integral(log_values, mean)
        if bool((width > _WIDE).all()):
            return plain
        reach = torch.asinh(_FAR / width.clamp(1e-6, 1.0))
        t = torch.linspace(-1, 1, _SPIKE).to(mean).reshape(-1, *[1] * mean.dim()) * reach
        spiked = peak_integral(log_values, mean, width.clamp(1e-6, 1.0) * t.sinh() - mean / deviation)
        return torch.where(width.squeeze(-1) > _WIDE, plain, spiked)

    def _at(self, q: Gaussian, z: Float[Tensor, "..."]) -> Gaussian:
        """The belief about ``W f`` for nodes ``z`` standard deviations from their means."""
        (w, mean), (w_var, var) = self.parts(q.mean), self.parts(q.var)
        f = Gaussian(mean, var).sample(z).unsqueeze(-1)
        return Gaussian((w @ f).squeeze(-1), (w_var @ f.square()).squeeze(-1))
