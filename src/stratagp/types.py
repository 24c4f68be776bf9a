"""Beliefs about function values: what layers return and likelihoods integrate over."""

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol, TypeAlias, runtime_checkable

from jaxtyping import Float
from torch import Tensor, tensordot

PointRows: TypeAlias = Tensor | list[Any]
"""Rows as kernels see them: points ``n d``, images, or a list of objects."""


@runtime_checkable
class SupportsArray(Protocol):
    """What becomes an array: arrays, tensors, columns and data frames.

    >>> from torch import ones
    >>> isinstance(ones(2), SupportsArray), isinstance("text", SupportsArray)
    (True, False)
    """

    def __array__(self) -> Any:
        """The values as an array."""


PointsLike: TypeAlias = SupportsArray | Sequence[Any]
"""Rows as users give them to models: points, or a list of objects."""

NumbersLike: TypeAlias = SupportsArray | Sequence[Any] | float
"""Numbers as users give them to models and metrics."""


class Gaussian(NamedTuple):
    """Independent Gaussians, one for each row and latent function; ``*s`` are sample axes.

    >>> from torch import ones
    >>> Gaussian(ones(2, 1), 4 * ones(2, 1)).sample(ones(2, 1)).tolist()  # mean + √var
    [[3.0], [3.0]]
    """

    mean: Float[Tensor, "*s n q"]
    var: Float[Tensor, "*s n q"]

    def sample(self, noise: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
        """Reparameterised draw ``mean + √var · noise`` for standard normal ``noise``."""
        return self.mean + self.var.sqrt() * noise


class Mixture(NamedTuple):
    """K Gaussians with log weights; components run along the leading axis of ``parts``.

    >>> from torch import tensor
    >>> parts = Gaussian(tensor([[[0.0]], [[2.0]]]), tensor([[[1.0]], [[1.0]]]))
    >>> Mixture(tensor([0.5, 0.5]).log(), parts).moments()
    Gaussian(mean=tensor([[1.]]), var=tensor([[2.]]))
    """

    log_weights: Float[Tensor, " k"]
    parts: Gaussian

    def moments(self) -> Gaussian:
        """Mean and variance of the whole: ``Σ πₖ mₖ`` and ``Σ πₖ (vₖ + (mₖ − m)²)``."""
        weights = self.log_weights.exp().to(self.parts.mean)
        mean = tensordot(weights, self.parts.mean, 1)
        return Gaussian(mean, tensordot(weights, self.parts.var + (self.parts.mean - mean).square(), 1))
