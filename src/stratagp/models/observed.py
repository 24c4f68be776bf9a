"""A Gaussian process observed with noise: what all ways of exact inference share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from stratagp.errors import InputError
from stratagp.kernels import Kernel
from stratagp.means import Zero
from stratagp.models.data_checks import check_data, check_points, refuse_contradictions, row_noise, wants_gradient
from stratagp.models.process import Process
from stratagp.parameterised import Parameterised
from stratagp.parameters import Parameter, Value, positive
from stratagp.types import NumbersLike, PointsLike


class ObservedProcess(Parameterised, Process):
    """``f ~ GP(mean, kernel)``, observed as ``y = f(x) + ε`` with ``ε ~ N(0, noise)``.

    Arguments:
        kernel: the covariance function, bound to its columns.
        mean: the prior mean, a :class:`~stratagp.means.Mean` or any torch module from ``n d`` to ``n``.
        noise: the noise variance; 0 for noiseless observations.
    """

    def __init__(self, kernel: Any, mean: Any = None, noise: Value | Parameter = 0.1) -> None:
        super().__init__()
        if not isinstance(kernel, Kernel):
            raise InputError(f"kernel must be a kernel such as RBF(), got {kernel!r}")
        if mean is not None and not callable(mean):
            raise InputError(f"mean must be a function such as means.Constant(), got {mean!r}; pass noise by keyword")
        self.kernel = kernel
        self.mean = Zero() if mean is None else mean
        if isinstance(noise, (int, float)) and noise == 0:
            self.register_buffer("noise", torch.zeros((), dtype=torch.float64))
        else:
            self.noise = positive(noise, name="noise")

    def covariance(self, x: PointsLike, z: PointsLike | None = None) -> Float[Tensor, "n m"]:
        """``k(x, z)``."""
        return self.kernel(x, z)

    def variance(self, x: PointsLike) -> Float[Tensor, " n"]:
        """``k(x, x)`` at each row."""
        return self.kernel.diag(x)

    def draw(self, n_features: int = 1000, generator: torch.Generator | None = None) -> Callable[[Any], Tensor]:
        """One function from the prior: ``m(x) + φ(x)w`` with ``w ~ N(0, I)``; its first call fixes the columns."""
        return _PriorFunction(self, n_features, generator)

    def _data(
        self, x: Any, y: NumbersLike, noise: NumbersLike | None, several: bool = True
    ) -> tuple[Any, Float[Tensor, " n *q"], Tensor]:
        x, y = check_data(self.kernel, x, y, several=several)
        given = row_noise(self, y, noise)
        refuse_contradictions(x, y, given)
        return x, y, given

    def _points(self, x: PointsLike) -> Any:
        return check_points(self.kernel, x)


class _PriorFunction:
    """A draw from the prior; its features are made once, when the number of columns is known."""

    def __init__(self, prior: ObservedProcess, n_features: int, generator: torch.Generator | None) -> None:
        self.prior, self.n_features, self.generator = prior, n_features, generator
        self.features: Callable[[Tensor], Tensor] | None = None
        self.weights = torch.zeros(0)

    def __call__(self, x: Tensor) -> Float[Tensor, " n"]:
        with torch.set_grad_enabled(wants_gradient(x)):
            if self.features is None:
                self.features = self.prior.kernel.random_features(self.n_features, x.shape[-1], self.generator)
                made = self.features(x[:1])
                self.weights = torch.randn(made.shape[-1], generator=self.generator, dtype=torch.float64).to(made)
            return self.prior.mean(x) + self.features(x) @ self.weights
