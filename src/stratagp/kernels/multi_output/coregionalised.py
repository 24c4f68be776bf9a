"""Several outputs at once: the last column of a point tells to which output the row belongs.

So each output may be observed at its own points, and a model for one output also serves many: the kernel knows how the
outputs are related. :func:`stack_outputs` adds the index column.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from stratagp.errors import InputError
from stratagp.kernels.algebra.arithmetic import Sum
from stratagp.kernels.base import Kernel
from stratagp.kernels.multi_output.labelled import (
    Grouped,
    append_label,
    assemble,
    assemble_diag,
    group,
    on_points,
    split_label,
)
from stratagp.parameters import Parameter, Value, positive, real


def stack_outputs(inputs: Sequence[Any]) -> Float[Tensor, "n columns"]:
    """The inputs of all outputs stacked in rows, with the output's index as the last column.

    Arguments:
        inputs: one array of shape (n_p, d) for each output; the matching targets are ``torch.cat([y₀, y₁, …])``.

    >>> stack_outputs([torch.tensor([[0.5], [0.7]]), torch.tensor([[0.1]])])
    tensor([[0.5000, 0.0000],
            [0.7000, 0.0000],
            [0.1000, 1.0000]])
    """
    points = [append_label(x, p) for p, x in enumerate(inputs)]
    if not points:
        raise InputError("inputs must have an array of points for each output, got none")
    widths = {x.shape[1] - 1 for x in points}
    if len(widths) > 1:
        raise InputError(f"inputs must have the same columns for every output, got {sorted(widths)} columns")
    return torch.cat(points)


class Independent(Kernel):
    """A separate kernel for each output and no correlation between outputs: ``k((x, p), (z, p')) = δ_pp' k_p(x, z)``.

    The last column of the points is the output ``p``, counted from 0. (``Separate`` is different: there
    every function is evaluated at every point.)

    >>> from stratagp import kernels as k
    >>> Independent([k.RBF(), k.RBF(variance=4.0)])(torch.tensor([[0.0, 0.0], [0.0, 1.0]]))
    tensor([[1., 0.],
            [0., 4.]], dtype=torch.float64, grad_fn=...)
    """

    def __init__(self, kernels: Sequence[Kernel]) -> None:
        super().__init__()
        if not kernels:
            raise InputError("Independent needs a kernel for each output, got none")
        self._adopt([on_points(kernel, "Independent") for kernel in kernels])

    def _bind(self, names: list[str]) -> None:
        super()._bind(names[:-1])

    def _group(self, x: Tensor) -> Grouped:
        return group(x, len(self.parts), "the output's index")

    def _block(self, p: int, x: Tensor, other: int, z: Tensor) -> Tensor:
        return self.parts[p](x, z) if p == other else x.new_zeros(x.shape[-2], z.shape[-2])

    def forward(self, x: Float[Tensor, "*qx n d"], z: Float[Tensor, "*qz m d"]) -> Float[Tensor, "*q n m"]:
        """Each output's matrix in its own block."""
        left = self._group(x)
        return assemble(left, left if z is x else self._group(z), self._block)

    def diag(self, x: Any) -> Float[Tensor, "*q n"]:
        """Each row's variance from the kernel of its output."""
        return assemble_diag(self._group(self._points(x, "x")), lambda p, rows: self.parts[p].diag(rows))

    def describe(self) -> str:
        """``Independent([…])``."""
        return f"Independent([{', '.join(part.describe() for part in self.parts)}])"


class Coregionalised(Kernel):
    """Outputs that mix functions of the same kind: ``k((x, p), (z, p')) = B_pp' k(x, z)``.

        B = W Wᵀ + diag(kappa)          W: n_outputs × rank

    ``W`` is what the outputs share, ``kappa`` what each has on its own; this is the intrinsic model of
    coregionalisation. The last column of the points is the output ``p``, counted from 0. The variance of
    ``base`` and the size of ``B`` are redundant: ``base.fix("variance")`` leaves the scale to ``B``.

    Arguments:
        base: the kernel over the other columns.
        n_outputs: the number of outputs.
        rank: the number of functions that they share, at most ``n_outputs``.
        weights: ``W``; if None, its columns are cosines of different frequencies, the first one constant.
        kappa: a number, or one for each output.

    >>> from stratagp import kernels as k
    >>> Coregionalised(k.RBF(), n_outputs=2).coregionalisation
    tensor([[1.0000, 0.5000],
            [0.5000, 1.0000]], dtype=torch.float64, grad_fn=...)
    """

    def __init__(
        self,
        base: Kernel,
        n_outputs: int,
        rank: int = 1,
        weights: Value | Parameter | None = None,
        kappa: Value | Parameter = 0.5,
    ) -> None:
        super().__init__()
        self.base = on_points(base, "Coregionalised")
        if not 1 <= rank <= n_outputs:
            raise InputError(f"rank must be between 1 and {n_outputs}, the number of outputs, got {rank}")
        self.n_outputs, self.rank = n_outputs, rank
        start = shared_weights(n_outputs, rank) / math.sqrt(2)
        self.weights = real(fill(start if weights is None else weights, (n_outputs, rank), "weights"))
        self.kappa = positive(fill(kappa, (n_outputs,), "kappa"))

    def _bind(self, names: list[str]) -> None:
        super()._bind(names[:-1])

    @property
    def coregionalisation(self) -> Float[Tensor, "*q p p"]:
        """``B = W Wᵀ + diag(kappa)``, the covariance between the outputs."""
        weights, kappa = self.weights, self.kappa
        own = kappa.squeeze(-2) if kappa.dim() == 3 else kappa
        return weights @ weights.mT + torch.diag_embed(own)

    def _split(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return split_label(x, self.n_outputs, "the output's index")

    def forward(self, x: Float[Tensor, "*qx n d"], z: Float[Tensor, "*qz m d"]) -> Float[Tensor, "*q n m"]:
        """The base kernel's matrix, each entry times the covariance of the two rows' outputs."""
        left, p = self._split(x)
        right, other = (left, p) if z is x else self._split(z)
        between = self.coregionalisation.index_select(-2, p).index_select(-1, other)
        return between * self.base(left, right)

    def diag(self, x: Any) -> Float[Tensor, "*q n"]:
        """``B_pp k(x, x)``."""
        points, p = self._split(self._points(x, "x"))
        return self.coregionalisation.diagonal(dim1=-2, dim2=-1).index_select(-1, p) * self.base.diag(points)

    def _settings(self) -> str:
        return f"{self.base.describe()}, n_outputs={self.n_outputs}, rank={self.rank}"


def linear_coregionalisation(bases: Sequence[Kernel], n_outputs: int, rank: int = 1) -> Kernel:
    """The linear model of coregionalisation, ``k((x, p), (z, p')) = Σ_t B⁽ᵗ⁾_pp' k_t(x, z)``.

    A sum of :class:`Coregionalised` terms of the same ``rank``, one for each of the ``bases``. They start at
    different mixtures of the outputs, so that bases of the same form can diverge.

    >>> from stratagp import kernels as k
    >>> kernel = linear_coregionalisation([k.RBF(2.0), k.RBF(0.1)], n_outputs=3)
    >>> [part.rank for part in kernel.parts]
    [1, 1]
    """
    if not bases:
        raise InputError("bases must have at least one kernel")
    starts = [shared_weights(n_outputs, rank, first=t * rank) / math.sqrt(2) for t in range(len(bases))]
    return Sum(*(Coregionalised(base, n_outputs, rank, w) for base, w in zip(bases, starts, strict=True)))


def shared_weights(n_outputs: int, rank: int, first: int = 0) -> Float[Tensor, "p r"]:
    """``W_pr = cos(π (p + ½)(r + first)/n_outputs)/√rank``: orthogonal columns, deterministic.

    Equal columns would get equal gradients and stay equal.
    """
    place = torch.arange(n_outputs, dtype=torch.float64)[:, None] + 0.5
    frequency = (torch.arange(rank) + first) % n_outputs
    return torch.cos(math.pi * place * frequency / n_outputs) / math.sqrt(rank)


def fill(value: Value | Parameter, shape: tuple[int, ...], name: str) -> Tensor | Parameter:
    """The value repeated to ``shape``; an existing parameter of that shape is returned as it is."""
    if isinstance(value, Parameter):
        given = tuple(value.natural.shape[0 if value.functions is None else 1 :])
        fits = given == shape
    else:
        value = torch.as_tensor(np.asarray(value, dtype=np.float64))
        given = tuple(value.shape)
        fits = len(given) <= len(shape) and all(g in (1, s) for g, s in zip(given[::-1], shape[::-1], strict=False))
    if not fits:
        raise InputError(f"{name} must have shape {shape}, or one that repeats to it, got {given}")
    return value if isinstance(value, Parameter) else value.expand(shape)
