"""Cascaded deep Gaussian processes (Damianou and Lawrence 2013) of any depth, supervised or not.

    h₁ = f₁(x) + N(0, noise₁),    h₂ = f₂(h₁) + N(0, noise₂),    …,    y = f_L(h_{L−1}) + N(0, noise_L)

The hidden values of each row have their own belief, ``q(hₙ) = N(mean, var)``, and the inducing values of all steps are
integrated out. With the bound ``ℒ`` of :mod:`stratagp.objectives.expected` and the entropy ``H``,

    ℒ(x → h₁) + H(q(h₁)) + ℒ(h₁ → h₂) + … + ℒ(h_{L−1} → y) ≤ log p(y | x).

Without ``x`` the first hidden values are standard normal, and ``−KL(q(h₁) ‖ N(0, I))`` stands for the first two terms:
with one step, this is the Bayesian latent variable model. The deep feed-forward process has no hidden noise, and so
does without the numbers of ``q(h)``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import torch
from jaxtyping import Float
from torch import Tensor, nn

from stratagp.errors import InputError
from stratagp.kernels import Kernel
from stratagp.kernels.base import as_tensor
from stratagp.layers import Inducing, LatentRows, Layer, Noisy, Stack
from stratagp.means import Zero
from stratagp.models.chain import Chain, columns
from stratagp.models.random_inputs import inducing_factor, noise_of, posterior_layer
from stratagp.objectives.expected import collapsed, sums
from stratagp.parameterised import Parameterised
from stratagp.parameters import Parameter, Value, positive, real
from stratagp.types import Gaussian, NumbersLike, PointsLike


class Step(Parameterised):
    """One sparse process of a cascade, which all functions of its layer share, and the noise on its values.

    Arguments:
        kernel: with expectations, except for a first step from known points.
        z: inducing points, in the space that the kernel sees.
        noise: a variance.

    >>> from stratagp import kernels as k
    >>> x = torch.linspace(0, 6, 20, dtype=torch.float64)[:, None]
    >>> bool(Step(k.RBF(variance=1.0), x[::2], 0.01).bound(x, x.sin()) > 0)
    True
    """

    def __init__(self, kernel: Kernel, z: Value | Parameter, noise: Value | Parameter = 0.1) -> None:
        super().__init__()
        self.kernel, self.z, self.noise = kernel, real(z, name="z"), positive(noise, name="noise")

    def bound(self, inputs: Gaussian | Tensor, targets: Gaussian | Tensor) -> Float[Tensor, ""]:
        """A lower bound on ``E log p(targets | inputs)``."""
        seen = sums(self.kernel, self.z, Zero(), inputs, targets)
        return collapsed(seen, inducing_factor(self.kernel, self.z), self.noise)

    def layer(self, inputs: Gaussian | Tensor, targets: Gaussian | Tensor) -> Inducing:
        """The process with the belief about inducing values that attains the bound."""
        return posterior_layer(self.kernel, self.z, sums(self.kernel, self.z, Zero(), inputs, targets), self.noise)


class CascadedGP(Parameterised):
    """Sparse processes, each over noisy values of the one before.

    Arguments:
        hidden: the initial hidden values of each layer, ``n q`` each, the first layer first.
        steps: the processes; as many as hidden layers for rows without ``x``, one more for rows with it.
        scale: the initial standard deviation of hidden values.

    >>> from stratagp import kernels as k
    >>> x = torch.linspace(-2, 2, 40, dtype=torch.float64)[:, None]
    >>> gp = CascadedGP([x], [Step(k.RBF(variance=1.0), x[::5]), Step(k.RBF(variance=1.0), x[::5])])
    >>> gp.condition(x, x.sin()).predict(x).mean.shape
    torch.Size([40, 1])
    """

    def __init__(self, hidden: Sequence[Float[Tensor, "n q"]], steps: Sequence[Step], scale: float = 0.3) -> None:
        super().__init__()
        if not hidden or len(steps) - len(hidden) not in (0, 1):
            raise InputError(
                f"a cascade of {len(hidden)} hidden layers has as many steps or one more: got {len(steps)}"
            )
        self.hidden = nn.ModuleList(LatentRows(values, scale) for values in hidden)
        self.steps = nn.ModuleList(steps)

    def log_evidence(self, x: PointsLike | None, y: NumbersLike) -> Float[Tensor, ""]:
        """A lower bound on ``log p(y | x)`` for the rows of the hidden values; on ``log p(y)`` where ``x`` is None."""
        values = self._values(x, y)
        bounds = [step.bound(*pair) for step, pair in zip(self._steps, pairwise(values), strict=True)]
        noisy = self._rows if x is not None else self._rows[1:]
        entropies = [0.5 * math.log(2 * math.pi * math.e) * rows.mean.numel() + rows.log_scale.sum() for rows in noisy]
        return torch.stack([*bounds, *entropies]).sum() - (0 if x is not None else self._rows[0].kl())

    def condition(self, x: PointsLike | None, y: NumbersLike) -> Chain:
        """The chain of layers, with noise between them, for predictions; from the latent points where ``x`` is None."""
        with torch.no_grad():
            values = self._values(x, y)
            layers: list[Layer] = [] if x is not None else [self._rows[0]]
            for step, pair in zip(self._steps, pairwise(values), strict=True):
                layers += [step.layer(*pair), Noisy(step.noise.clone())]
            likelihood = noise_of(self._steps[-1].noise, columns(as_tensor(y, "y")).shape[1])
        return Chain(Stack(*layers[:-1], propagate="moments"), likelihood, torch.float64)

    def _values(self, x: PointsLike | None, y: NumbersLike) -> list[Gaussian | Tensor]:
        """What each step sees, and what it is to explain."""
        n = len(self._rows[0].mean)
        target = columns(as_tensor(y, "y").double())
        if (x is None) != (len(self._steps) == len(self._rows)):
            raise InputError("x is for a cascade with one step more than hidden layers; others have none")
        given = [] if x is None else [as_tensor(x, "x").double()]
        if any(len(part) != n for part in [*given, target]):
            raise InputError(
                f"x and y must have {n} rows, as hidden does, got {[len(part) for part in [*given, target]]}"
            )
        return [*given, *(rows(torch.arange(n)) for rows in self._rows), target]

    @property
    def _rows(self) -> list[LatentRows]:
        return [rows for rows in self.hidden if isinstance(rows, LatentRows)]

    @property
    def _steps(self) -> list[Step]:
        return [step for step in self.steps if isinstance(step, Step)]
