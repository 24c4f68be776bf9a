"""Regression on uncertain inputs: one sparse process in closed form, wherever the inputs come from.

    b ~ p(B | x),    f | B ~ GP(m(b), k),    y ~ N(f, noise)

The belief about ``b`` is a layer, and that layer decides the model:

===========================================  ====================================================================
layer                                        model
===========================================  ====================================================================
:class:`~stratagp.layers.Inducing`           deep feed-forward GP (Kandemir and Hamprecht 2015), see
                                             :mod:`stratagp.models.dfgp`; with a linear ``m`` a warped GP
:class:`~stratagp.layers.Noisy`              noisy-input sparse GP
:class:`~stratagp.layers.LatentRows`         Bayesian GPLVM (Titsias and Lawrence 2010), see
                                             :mod:`stratagp.models.gplvm`
:class:`~stratagp.layers.Features`           deep kernel learning with the collapsed bound
===========================================  ====================================================================
"""

from __future__ import annotations

import copy
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from stratagp.errors import InputError
from stratagp.kernels import Kernel
from stratagp.kernels.base import as_tensor
from stratagp.layers import Inducing, Layer, Stack
from stratagp.layers.base import CovarianceName, with_jitter
from stratagp.likelihoods import GaussianNoise
from stratagp.linalg import cholesky
from stratagp.means import Mean, Zero
from stratagp.models.chain import Chain, columns
from stratagp.objectives.expected import Sums, collapsed, optimal, sums
from stratagp.parameterised import Parameterised
from stratagp.parameters import Parameter, Value, positive, real
from stratagp.types import NumbersLike, PointsLike

_JITTER = 1e-6  # of the inducing values, relative to their variance


class RandomInputGP(Parameterised):
    """``y = f(b) + noise`` with a layer's belief about ``b``, by the collapsed bound: O(n m²) a step.

    Arguments:
        inputs: the layer that gives a belief about the inputs of the process at each row.
        kernel: the covariance of the process: RBF, MetricRBF, Linear, Constant, their sums and products.
        z: the inducing points, in the space of ``b``; learnt unless given as a fixed parameter.
        mean: the prior mean, constant or linear.
        noise: the noise variance, of all outputs or of each.

    >>> from stratagp import kernels as k
    >>> from stratagp.layers import Noisy
    >>> x = torch.linspace(0, 6, 100, dtype=torch.float64)[:, None]
    >>> gp = RandomInputGP(Noisy(0.01), k.RBF(variance=1.0), x[::10], noise=0.01)
    >>> round(gp.condition(x, x.sin()).predict(torch.tensor([[1.0]])).mean.item(), 1)  # sin 1 = 0.8415
    0.8
    """

    def __init__(
        self,
        inputs: Layer,
        kernel: Kernel,
        z: Value | Parameter,
        mean: Mean | nn.Module | None = None,
        noise: Value | Parameter = 0.1,
    ) -> None:
        super().__init__()
        if not kernel.takes_tensors or kernel.functions is not None:
            raise InputError("RandomInputGP needs one kernel over numeric columns")
        self.inputs = inputs
        self.kernel = kernel
        self.z = real(z, name="z")
        self.mean = Zero() if mean is None else mean
        self.noise = positive(noise, name="noise")

    def log_evidence(self, x: PointsLike, y: NumbersLike) -> Float[Tensor, ""]:
        """A lower bound on ``log p(y | x)``: the score of everything learnt."""
        return collapsed(self.sums(x, y), inducing_factor(self.kernel, self.z), self.noise) - self.inputs.kl()

    def sums(self, x: PointsLike, y: NumbersLike) -> Sums:
        """The sums over rows that the bound needs."""
        x, y = (as_tensor(part, name).double() for part, name in ((x, "x"), (y, "y")))
        if len(x) != len(y):
            raise InputError(f"x and y must have equally many rows, got {len(x)} and {len(y)}")
        belief = self.inputs(x)
        if (belief if isinstance(belief, Tensor) else belief.mean).dim() > 2:
            raise InputError("inputs must give moments, not samples: use Stack(…, propagate='moments')")
        return sums(self.kernel, self.z, self.mean, belief, columns(y))

    def condition(self, x: PointsLike, y: NumbersLike) -> Chain:
        """The chain of layers for predictions, with the belief about inducing values that attains the bound."""
        with torch.no_grad():
            seen = self.sums(x, y)
            last = posterior_layer(self.kernel, self.z, seen, self.noise, self.mean)
            layer = Stack(*layers_of(copy.deepcopy(self.inputs)), last, propagate="moments")
            return Chain(layer, noise_of(self.noise, seen.cross.shape[1]), torch.float64)


def layers_of(layer: Layer) -> list[Layer]:
    """The layers of a stack, or the single layer."""
    return layer.sequence if isinstance(layer, Stack) else [layer]


def inducing_factor(kernel: Kernel, z: Float[Tensor, "m d"]) -> Float[Tensor, "m m"]:
    """The lower Cholesky factor of ``k(z, z)`` with its jitter."""
    return cholesky(with_jitter(kernel(z, z), _JITTER), CovarianceName("the inducing points", kernel))


def posterior_layer(kernel: Kernel, z: Tensor, seen: Sums, noise: Tensor, mean: Any = None) -> Inducing:
    """A copy of a sparse process, with the belief about inducing values that attains its collapsed bound."""
    best = optimal(seen, inducing_factor(kernel, z), noise)
    kernel, mean = copy.deepcopy((kernel, mean))
    layer = Inducing(kernel, z.clone(), mean=mean, functions=len(best.mean), jitter=_JITTER).to(z.device)
    layer.posterior.mean.copy_(best.mean)
    layer.posterior.scale.copy_(best.scale)
    return layer


def noise_of(variance: Tensor, outputs: int) -> GaussianNoise:
    """A copy of the noise, for each output."""
    return GaussianNoise(variance.item() if outputs == 1 else variance.expand(outputs).tolist())
