"""Values and slopes together: the covariances of a process with its own gradient.

Differentiation is linear, so the partial derivatives of a Gaussian process are jointly Gaussian with it, and

    cov(f(x), ∂_j f(z)) = ∂k(x, z)/∂z_j,     cov(∂_i f(x), ∂_j f(z)) = ∂²k(x, z)/∂x_i ∂z_j.

With ``s = Σ_d (x_d − z_d)²/ℓ_d²`` and ``g_j = (x_j − z_j)/ℓ_j²``, a kernel ``v ρ(s)`` has

    ∂k/∂z_j = k₁ g_j,     ∂²k/∂x_i ∂z_j = k₁ δ_ij/ℓ_i² − k₂ g_i g_j,     k₁ = −2v ρ'(s),  k₂ = 4v ρ''(s),

which is used for the RBF and the Matérn kernel of order 5/2. Autograd differentiates all other kernels. The derivative
by one column, for all pairs of rows at once, is a forward derivative, obtained by two reverse passes: the first, ``G ↦
Σᵢ Gᵢⱼ ∂kᵢⱼ/∂zⱼ``, is linear in ``G``, and its derivative by ``G`` separates all entries. Derivatives of higher orders
are such derivatives again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from stratagp.errors import InputError, UnsupportedError
from stratagp.kernels.base import Kernel
from stratagp.kernels.multi_output.labelled import Grouped, append_label, assemble, assemble_diag, group, on_points
from stratagp.kernels.stationary.matern import Matern
from stratagp.kernels.stationary.scaled_distance import RBF, constant_diag, distance
from stratagp.linalg import scaled_sqdist

_DIAG_CHUNK = 128

Profile = Callable[[Tensor], tuple[Tensor, Tensor]]


def value_gradient(kernel: Kernel, x: Any, z: Any = None) -> Float[Tensor, "*q n m d"]:
    """``cov(f(xᵢ), ∂_j f(z_m)) = ∂k(xᵢ, z_m)/∂z_mj``; ``z`` defaults to ``x``.

    >>> from stratagp import kernels as k
    >>> value_gradient(k.RBF(), torch.tensor([[1.0]]), torch.tensor([[0.0]])).item()  # exp(−½)
    0.60653...
    """
    x, z = _checked(kernel, x, z)
    (row,) = _entries(kernel, x, z, [0], range(1, x.shape[-1] + 1))
    return torch.stack(row, -1)


def gradient_gradient(kernel: Kernel, x: Any, z: Any = None) -> Float[Tensor, "*q n d m d"]:
    """``cov(∂_i f(x_n), ∂_j f(z_m)) = ∂²k(x_n, z_m)/∂x_ni ∂z_mj`` at position ``[n, i, m, j]``.

    ``z`` defaults to ``x``.

    >>> from stratagp import kernels as k
    >>> gradient_gradient(k.RBF(lengthscale=0.5), torch.tensor([[1.0]])).item()
    4.0
    """
    x, z = _checked(kernel, x, z)
    every = range(1, x.shape[-1] + 1)
    table = _entries(kernel, x, z, every, every)
    return torch.stack([torch.stack(row, -1) for row in table], -3)


def slopes_of(function: Callable[[Tensor], Tensor], x: Float[Tensor, "n d"]) -> Float[Tensor, "n d"]:
    """``∂f(xᵢ)/∂x_ij`` of a function with one value per row (a prior mean or a drawn function), by autograd.

    The slopes have a graph if the function's values would have one.

    >>> slopes_of(lambda x: x.square().sum(1), torch.tensor([[1.0, 2.0]]))
    tensor([[2., 4.]])
    """
    keep = torch.is_grad_enabled() and (x.requires_grad or function(x[:1]).requires_grad)
    with torch.inference_mode(False), torch.enable_grad():
        shift = torch.zeros_like(x, requires_grad=True)
        slopes = _grad(function(x + shift).sum(), shift)
    return slopes if keep else slopes.detach()


class Derivatives(Kernel):
    """A process and its partial derivatives as one, to observe and predict values and slopes together.

    The last column of the points tells what a row is about: 0 for the value ``f(x)``, ``j = 1 … d`` for the slope
    ``∂f/∂x_j``. The covariances are the derivatives of ``base``,

        k((x, 0), (z, 0)) = base(x, z)
        k((x, 0), (z, j)) = ∂base(x, z)/∂z_j
        k((x, i), (z, j)) = ∂²base(x, z)/∂x_i ∂z_j.

    Rows may be in any order. :func:`stack_values_and_slopes` and :func:`with_derivatives` add the column.

    Arguments:
        base: the kernel of ``f``.
        of: what the labels 1, 2, … stand for, where that is not the slope along each column: for each label the
            columns, counted from 1, by which ``f`` is differentiated. ``[(1,), (1, 1), (1, 2)]`` stands for
            ``∂f/∂x₁``, ``∂²f/∂x₁²`` and ``∂²f/∂x₁∂x₂``. The process must be as many times differentiable.

    >>> from stratagp import kernels as k
    >>> kernel = Derivatives(k.RBF(lengthscale=0.5))
    >>> kernel(torch.tensor([[0.0, 0.0], [0.0, 1.0]]))  # a value and a slope at 0
    tensor([[1., 0.],
            [0., 4.]], dtype=torch.float64, grad_fn=...)
    >>> curvature = Derivatives(k.RBF(lengthscale=0.5), of=[(1, 1)])
    >>> curvature.diag(torch.tensor([[0.0, 1.0]])).item()  # 3/ℓ⁴
    48.0
    """

    def __init__(self, base: Kernel, of: Sequence[Sequence[int]] | None = None) -> None:
        super().__init__()
        self.of = None if of is None else _multi_indices(of)
        _require_smooth(on_points(base, "Derivatives"), self._order)
        self.base = base

    @property
    def _order(self) -> int:
        return max(map(len, self.of)) if self.of else 1

    @property
    def differentiable(self) -> float:
        """As many derivatives less than the base as are taken."""
        return self.base.differentiable - self._order

    def _bind(self, names: list[str]) -> None:
        super()._bind(names[:-1])

    def _group(self, x: Tensor) -> Grouped:
        if self.of is None:
            return group(x, x.shape[-1], "0 for a value or j for a derivative by column j")
        if (last := max(map(max, self.of))) >= x.shape[-1]:
            raise InputError(f"Derivatives(of=…) names column {last}, but the points have {x.shape[-1] - 1}")
        return group(x, len(self.of) + 1, "0 for a value or j for the derivative at position j of of")

    def _by(self, label: int) -> tuple[int, ...]:
        """The columns by which rows with this label differentiate."""
        if self.of is None:
            return (label,) if label else ()
        return self.of[label - 1] if label else ()

    def _block(self, a: int, x: Tensor, b: int, z: Tensor) -> Tensor:
        left, right = self._by(a), self._by(b)
        if not left and not right:
            return self.base(x, z)
        if len(left) > 1 or len(right) > 1:
            return _mixed(self.base, x, z, left, right)
        return _entries(self.base, x, z, left or [0], right or [0])[0][0]

    def forward(self, x: Float[Tensor, "*qx n d"], z: Float[Tensor, "*qz m d"]) -> Float[Tensor, "*q n m"]:
        """One block for each pair of kinds among the rows."""
        left = self._group(x)
        return assemble(left, left if z is x else self._group(z), self._block)

    def diag(self, x: Any) -> Float[Tensor, "*q n"]:
        """``k(x, x)`` for values, ``∂²k/∂x_j ∂z_j`` at ``z = x`` for slopes."""
        return assemble_diag(self._group(self._points(x, "x")), self._variances)

    def _variances(self, a: int, x: Tensor) -> Tensor:
        by = self._by(a)
        if not by:
            return self.base.diag(x)
        profile = _closed_form(self.base)
        if profile is None or len(by) > 1:
            chunks = [self._block(a, rows, a, rows) for rows in x.split(_DIAG_CHUNK, -2)]
            return torch.cat([chunk.diagonal(dim1=-2, dim2=-1) for chunk in chunks], -1)
        self.base._check_columns(x.shape[-1])
        first, _ = profile(x.new_zeros(()))
        return constant_diag(self.base.variance * first * _precision(self.base, x)[..., by[0] - 1 : by[0]], x)

    def describe(self) -> str:
        """``Derivatives(base)``, with ``of`` if given."""
        return f"Derivatives({self.base.describe()}{'' if self.of is None else f', of={list(self.of)}'})"


def with_derivatives(x: Any, component: Any, kinds: int | None = None) -> Float[Tensor, "n columns"]:
    """Points for :class:`Derivatives`: rows of values, or of slopes along one column.

    Arguments:
        x: points ``n d``.
        component: 0 for values, ``j`` for slopes along column ``j``; one number, or one for each row.
        kinds: how many derivatives ``Derivatives(of=…)`` has, where ``j`` stands for one of these.

    >>> with_derivatives(torch.tensor([[0.5], [0.7]]), [0, 1])
    tensor([[0.5000, 0.0000],
            [0.7000, 1.0000]])
    """
    points = append_label(x, component)
    group(points, points.shape[-1] if kinds is None else kinds + 1, "the component")
    return points


def stack_values_and_slopes(
    x_values: Any, x_slopes: Any, components: int | Sequence[int] | None = None
) -> Float[Tensor, "n columns"]:
    """Points for :class:`Derivatives`: first the values, then all slopes by one column, then by the next.

    Arguments:
        x_values: points at which you want the function itself.
        x_slopes: points at which you want slopes.
        components: which slopes, counting columns from 1; all if None.

    The matching targets are ``torch.cat([y, slopes₁, slopes₂, …])``.

    >>> stack_values_and_slopes(torch.tensor([[0.0]]), torch.tensor([[0.5], [0.7]]))
    tensor([[0.0000, 0.0000],
            [0.5000, 1.0000],
            [0.7000, 1.0000]])
    """
    values = append_label(x_values, 0)
    places = append_label(x_slopes, 0).to(values)[:, :-1]
    columns = values.shape[-1] - 1
    if places.shape[-1] != columns:
        raise InputError(f"x_values has {columns} columns but x_slopes has {places.shape[-1]}: they must agree")
    if components is None:
        components = range(1, columns + 1)
    chosen = [components] if isinstance(components, int) else components
    return torch.cat([values, *(with_derivatives(places, j) for j in chosen)])


def _checked(kernel: Kernel, x: Any, z: Any) -> tuple[Tensor, Tensor]:
    _require_smooth(kernel)
    left = kernel._points(x, "x")
    right = left if z is None else kernel._points(z, "z")
    if left.shape[-1] != right.shape[-1]:
        raise InputError(f"x has {left.shape[-1]} columns but z has {right.shape[-1]}: they must agree")
    return left, right


def _require_smooth(kernel: Kernel, order: int = 1) -> None:
    if kernel.differentiable >= order:
        return
    leaves = [part for part in kernel.modules() if isinstance(part, Kernel) and not part.parts]
    rough = " and ".join(dict.fromkeys(part.describe() for part in leaves if part.differentiable < order))
    rough = rough or kernel.describe()
    if order == 1:
        raise UnsupportedError(
            f"this process has no gradient because {rough} is not mean-square differentiable: use RBF() or "
            "Matern(nu=2.5) instead"
        )
    raise UnsupportedError(
        f"this process has no derivatives of order {order} because {rough} is not {order} times mean-square "
        f"differentiable: use RBF() or Matern(nu={order + 0.5:g}) instead"
    )


def _multi_indices(of: Sequence[Sequence[int]]) -> tuple[tuple[int, ...], ...]:
    """Checks the columns of each derivative."""
    example = "such as [(1,), (1, 1)] for the slope and the curvature along the first column"
    if not len(of):
        raise InputError(f"of must list the columns of each derivative, {example}; got {of!r}")
    for columns in of:
        if not len(columns) or any(c < 1 for c in columns):
            raise InputError(f"of must have whole numbers ≥ 1 for each derivative, {example}; got {columns!r}")
    return tuple(tuple(columns) for columns in of)


def _entries(kernel: Kernel, x: Tensor, z: Tensor, rows: Sequence[int], columns: Sequence[int]) -> list[list[Tensor]]:
    """The matrices ``cov(∂_a f(x), ∂_b f(z))`` for ``a`` in ``rows``, ``b`` in ``columns``, at ``[a][b]``.

    0 stands for the value; ``a`` and ``b`` are never both 0.
    """
    kernel._check_columns(x.shape[-1])
    profile = _closed_form(kernel)
    if profile is None:
        return _by_autograd(kernel, x, z, rows, columns)
    weight = _precision(kernel, x)
    first, second = (kernel.variance * part for part in profile(scaled_sqdist(x, z, 1 / kernel.lengthscale)))

    def slope(j: int) -> Tensor:
        return (x[..., j - 1, None] - z[..., None, :, j - 1]) * weight[..., j - 1 : j]

    def entry(a: int, b: int) -> Tensor:
        if a == 0 or b == 0:
            return first * slope(b) if a == 0 else -first * slope(a)
        mixed = -second * slope(a) * slope(b)
        return mixed + first * weight[..., a - 1 : a] if a == b else mixed

    return [[entry(a, b) for b in columns] for a in rows]


def _closed_form(kernel: Kernel) -> Profile | None:
    """``s ↦ (−2ρ'(s), 4ρ''(s))`` if the kernel has a closed form, otherwise None."""
    if type(kernel) is RBF:
        return _rbf
    fixed = type(kernel) is Matern and not isinstance(kernel.nu, Tensor)  # a learnt ν needs its own gradient
    return _matern52 if fixed and kernel.nu == 2.5 else None


def _rbf(s: Float[Tensor, "..."]) -> tuple[Float[Tensor, "..."], Float[Tensor, "..."]]:
    bell = torch.exp(-0.5 * s)
    return bell, bell


def _matern52(s: Float[Tensor, "..."]) -> tuple[Float[Tensor, "..."], Float[Tensor, "..."]]:
    r = 5**0.5 * distance(s)
    decay = torch.exp(-r)
    return 5 / 3 * (1 + r) * decay, 25 / 3 * decay


def _precision(kernel: Kernel, x: Float[Tensor, "*q n d"]) -> Float[Tensor, "..."]:
    """``1/ℓ²`` for each column, broadcast after a function axis."""
    weight = kernel.lengthscale.square().reciprocal()
    return weight.expand(*weight.shape[:-1], x.shape[-1])


def _by_autograd(
    kernel: Kernel, x: Tensor, z: Tensor, rows: Sequence[int], columns: Sequence[int]
) -> list[list[Tensor]]:
    """The same by differentiating ``k(x + u, z + v)`` at ``u = v = 0``; ``x`` and ``z`` keep their graphs."""
    keep = torch.is_grad_enabled()
    with torch.inference_mode(False), torch.enable_grad():
        u = torch.zeros_like(x).requires_grad_(any(rows))
        v = torch.zeros_like(z).requires_grad_(any(columns))
        by_column = _slopes(kernel(x + u, z + v), v, columns)
        table = [_slopes(part, u, rows) for part in by_column]
    by_row = [list(entries) for entries in zip(*table, strict=True)]
    return by_row if keep else [[entry.detach() for entry in entries] for entries in by_row]


def _mixed(kernel: Kernel, x: Tensor, z: Tensor, left: Sequence[int], right: Sequence[int]) -> Tensor:
    """The matrix of ``k(x, z)`` differentiated by columns of ``x`` and by columns of ``z``, one after the other."""
    keep = torch.is_grad_enabled()
    with torch.inference_mode(False), torch.enable_grad():
        u = torch.zeros_like(x).requires_grad_(bool(left))
        v = torch.zeros_like(z).requires_grad_(bool(right))
        found = kernel(x + u, z + v)
        for shift, columns in ((v, right), (u, left)):
            for column in columns:
                (found,) = _slopes(found, shift, [column])
    return found if keep else found.detach()


def _slopes(k: Tensor, shift: Tensor, components: Sequence[int]) -> list[Tensor]:
    """The matrix ``k`` (component 0) or its derivatives by columns of the points, for all pairs of rows."""
    if not any(components):
        return [k for _ in components]
    weights = torch.ones_like(k, requires_grad=True)
    pulled = _grad(k, shift, weights)
    slopes = {0: k} | {j: _grad(pulled[..., j - 1].sum(), weights) for j in components if j > 0}
    return [slopes[j] for j in components]


def _grad(of: Tensor, by: Tensor, weights: Tensor | None = None) -> Tensor:
    """The derivative with its graph; zero if there is no dependence."""
    found = torch.autograd.grad(of, by, weights, create_graph=True, allow_unused=True) if of.requires_grad else (None,)
    return torch.zeros_like(by) if found[0] is None else found[0]
