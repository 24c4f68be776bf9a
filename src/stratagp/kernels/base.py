"""What every kernel is: a covariance function with named parameters, an algebra and a few optional abilities.

A new kernel is one class with one method::

    class Triangle(Kernel):
        '''k(x, z) = variance · max(0, 1 − |x − z|)  on one column.'''

        def __init__(self, variance=1.0):
            super().__init__()
            self.variance = positive(variance, name="variance")

        def forward(self, x, z):
            return self.variance * (1 - torch.cdist(x, z)).clamp_min(0)

Everything else follows: ``diag``, sums and products, columns, derivatives by autograd, a function axis.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from stratagp.errors import InputError, UnsupportedError
from stratagp.kernels import expectations
from stratagp.kernels.expectations import Term
from stratagp.parameterised import Parameterised, describe_parameters
from stratagp.parameters import Parameter
from stratagp.types import Gaussian

if TYPE_CHECKING:
    from stratagp.kernels.feature_maps import FeatureMap

_DIAG_CHUNK = 256

registry: dict[str, type[Kernel]] = {}
"""Every concrete kernel class: the library's by name, others by their full path."""


def as_tensor(values: Any, name: str) -> Tensor:
    """Numbers in any container (tensor, array, data frame, list) as a tensor."""
    if isinstance(values, Tensor):
        return values
    array = np.asarray(values)
    if array.dtype.kind not in "fiub":
        raise InputError(f"{name} must hold numbers, got {array.dtype}: encode other columns as numbers first")
    return torch.as_tensor(array if array.flags.writeable else array.copy())


class Operators(NamedTuple):
    """The classes that ``+``, ``*``, ``**``, ``.on`` and ``.warp`` build from kernels.

    Those classes are kernels themselves, so the base class cannot import them: ``kernels/algebra/__init__.py`` hands
    them to :class:`Kernel`.
    """

    sum: Callable[[Any, Any], Kernel]
    product: Callable[[Any, Any], Kernel]
    power: Callable[[Kernel, Any], Kernel]
    on_columns: Callable[[Kernel, Any], Kernel]
    warped: Callable[[Kernel, Callable[[Tensor], Tensor]], Kernel]


class Kernel(Parameterised, ABC):
    """A covariance function ``k(x, z)``.

    Subclasses write :meth:`forward` for points ``n d`` and ``m d`` and read their parameters as tensors; with a
    function axis on the parameters (see :meth:`replicate`) the same formula returns ``q n m``. The kernel computes in
    the precision of its parameters (float64 unless ``kernel.float()``) and converts its inputs to it.

    ``differentiable`` is the number of mean-square derivatives of the process: 0, 1, 2 … or infinity.

    >>> from stratagp import kernels as k
    >>> kernel = k.RBF(lengthscale=0.5)
    >>> kernel([[0.0], [0.5]], [[0.0]]).shape, kernel.diag([[0.0], [0.5]]).tolist()
    (torch.Size([2, 1]), [1.0, 1.0])
    """

    operators: ClassVar[Operators]

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        abstract = any(getattr(getattr(cls, name, None), "__isabstractmethod__", False) for name in dir(cls))
        if not abstract:
            ours = cls.__module__.startswith("stratagp.")
            registry[cls.__name__ if ours else f"{cls.__module__}.{cls.__qualname__}"] = cls

    @abstractmethod
    def forward(self, x: Any, z: Any) -> Float[Tensor, "*q n m"]:
        """The matrix of ``k(xᵢ, zⱼ)``."""

    def __call__(self, x: Any, z: Any = None) -> Float[Tensor, "*q n m"]:
        """``k(x, z)``, or ``k(x, x)`` without ``z``; checks and converts the inputs first."""
        if not self.takes_tensors:
            if isinstance(x, (str, bytes)) or isinstance(z, (str, bytes)):
                raise InputError("x must be a list of objects: pass a single text as [text]")
            return super().__call__(x, x if z is None else z)
        same = z is None or z is x
        x = self._points(x, "x")
        z = x if same else self._points(z, "z")
        if x.shape[-1] != z.shape[-1]:
            raise InputError(f"x has {x.shape[-1]} columns but z has {z.shape[-1]}: they must agree")
        self._check_columns(x.shape[-1])
        return super().__call__(x, z)

    def _check_columns(self, columns: int) -> None:
        for name, child in self._modules.items():
            if not isinstance(child, Parameter):
                continue
            if child.awaits_columns:
                raise InputError(
                    f"{type(self).__name__}(ard=True) does not know its number of columns yet: call "
                    f"kernel.bind({columns}) or pass ard={columns}"
                )
            if child.per_column and child.raw.shape[-1] != columns:
                raise InputError(
                    f"{type(self).__name__} has a {name} for each of {child.raw.shape[-1]} columns, "
                    f"but the points have {columns}"
                )

    def diag(self, x: Any) -> Float[Tensor, "*q n"]:
        """``k(xᵢ, xᵢ)`` for each row, without the matrix."""
        blocks = [self(rows).diagonal(dim1=-2, dim2=-1) for rows in self._points(x, "x").split(_DIAG_CHUNK, -2)]
        return torch.cat(blocks, -1)

    def _points(self, x: Any, name: str) -> Float[Tensor, "*q n d"]:
        x = as_tensor(x, name)
        if x.dim() not in (2, 3):
            hint = "; for a single column use x[:, None]" if x.dim() == 1 else ""
            raise InputError(f"{name} must have one point in each row, shape (n, d), got shape {tuple(x.shape)}{hint}")
        own = next(self.parameters(), None)
        if own is not None:
            return x.to(own)
        return x if x.is_floating_point() else x.to(torch.float64)

    @property
    def functions(self) -> int | None:
        """How many latent functions have their own values here (the leading axis ``q``), or None."""
        own = [item.parameter.functions or 0 for item in self.named_values()]
        return max([*own, *(part.functions or 0 for part in self.parts)], default=0) or None

    def replicate(self, functions: int) -> Kernel:
        """Give each of ``functions`` latent functions its own copy of every parameter; returns the kernel.

        >>> from stratagp import kernels as k
        >>> k.RBF().replicate(3)(torch.zeros(2, 1)).shape
        torch.Size([3, 2, 2])
        """
        if functions < 1:
            raise InputError(f"functions must be at least 1, got {functions}")
        if self.functions is not None:
            raise InputError(f"{self} has {self.functions} functions already and cannot be replicated again")
        for item in list(self.named_values()):
            item.parameter.replicate(functions)
        return self

    def bind(self, columns: int | Sequence[str]) -> Kernel:
        """Tell the kernel its input columns, by number or by name; returns the kernel.

        Resolves ``.on("name")`` and gives ``ard=True`` kernels one lengthscale per column. Estimators call it.
        """
        names = [str(i) for i in range(columns)] if isinstance(columns, int) else list(columns)
        if len(set(names)) < len(names):
            raise InputError(f"column names must differ, got {', '.join(names)}")
        self._bind(names)
        return self

    def _bind(self, names: list[str]) -> None:
        for child in self._modules.values():
            if isinstance(child, Kernel):
                child._bind(names)
            elif isinstance(child, Parameter) and child.awaits_columns:
                child.spread(len(names))

    # --- the algebra ---

    def __add__(self, other: Any) -> Kernel:
        return self.operators.sum(self, other)

    def __radd__(self, other: Any) -> Kernel:
        return self if other == 0 else self.operators.sum(other, self)  # sum([…]) starts from 0

    def __mul__(self, other: Any) -> Kernel:
        return self.operators.product(self, other)

    def __rmul__(self, other: Any) -> Kernel:
        return self.operators.product(other, self)

    def __pow__(self, exponent: Any) -> Kernel:
        return self.operators.power(self, exponent)

    def on(self, columns: Any) -> Kernel:
        """The same kernel on some columns only: by index, slice, name or a list of them.

        >>> from stratagp import kernels as k
        >>> k.RBF().on([0, 2]) + k.Linear().on("year")
        RBF(lengthscale=1, variance=1).on([0, 2]) + Linear(variance=1).on('year')
        """
        return self.operators.on_columns(self, columns)

    def warp(self, function: Callable[[Tensor], Tensor]) -> Kernel:
        """``k(u(x), u(z))`` for a function or torch module ``u`` of the inputs."""
        return self.operators.warped(self, function)

    @property
    def parts(self) -> list[Kernel]:
        """The kernels that make up this one, in order."""
        return [child for child in self._modules.values() if isinstance(child, Kernel)]

    def _adopt(self, kernels: Sequence[Kernel]) -> None:
        """Register ``kernels`` as parts named 0, 1, …."""
        for i, kernel in enumerate(kernels):
            self.add_module(str(i), kernel)

    @property
    def differentiable(self) -> float:
        """How many mean-square derivatives the process has; for a composed kernel, that of its roughest part."""
        return min((part.differentiable for part in self.parts), default=0)

    @property
    def takes_tensors(self) -> bool:
        """Whether the inputs are rows of numbers rather than lists of objects."""
        return all(part.takes_tensors for part in self.parts)

    # --- optional abilities ---

    def plain(self, x: Float[Tensor, "*qx n d"], z: Float[Tensor, "*qz m d"]) -> Float[Tensor, "*q n m"]:
        """``k(x, z)`` by the textbook formula, in operations that torch can trace.

        :meth:`forward` may choose its method by the numbers that it sees, to keep every digit; this has one method and
        agrees with it to about eight digits. Exported graphs use it, and :func:`~stratagp.testing.check_kernel`
        compares the two.
        """
        raise UnsupportedError(self._no("plain formula for an exported graph"))

    def terms(self, dim: int) -> list[Term]:
        """The kernel on points with ``dim`` columns as a sum of :class:`~stratagp.kernels.expectations.Term`.

        A kernel that has them has the expectations below, under ``x ~ N(q.mean, diag q.var)``.

        >>> from stratagp import kernels as k
        >>> q = Gaussian(mean=torch.zeros(1, 1), var=torch.full((1, 1), 3.0))
        >>> k.RBF().psi1(q, torch.zeros(1, 1)).item()  # 1/√(1 + 3)
        0.5
        """
        raise UnsupportedError(
            self._no("closed-form expectation under Gaussian inputs; RBF, MetricRBF, Linear, Constant, their sums and ")
            + "products have: use these, or propagate samples, not moments"
        )

    def psi0(self, q: Gaussian) -> Float[Tensor, "*q n"]:
        """``E k(x, x)``."""
        q = self._belief(q)
        return expectations.psi0(expectations.terms_of(self, q.mean.shape[-1]), q)

    def psi1(self, q: Gaussian, z: Float[Tensor, "*qz m d"]) -> Float[Tensor, "*q n m"]:
        """``E k(x, z)``."""
        return expectations.psi1(*self._terms_at(q, z))

    def psi1_along(
        self, q: Gaussian, z: Float[Tensor, "*qz m d"], direction: Float[Tensor, " d"]
    ) -> Float[Tensor, "*q n m"]:
        """``E (direction·x) k(x, z)``."""
        return expectations.psi1_along(*self._terms_at(q, z), direction)

    def psi2(self, q: Gaussian, z: Float[Tensor, "*qz m d"]) -> Float[Tensor, "*q n m m"]:
        """``E k(x, z) k(x, z')``."""
        return expectations.from_pairs(self.psi2_pairs(q, z))

    def psi2_pairs(self, q: Gaussian, z: Float[Tensor, "*qz m d"]) -> Float[Tensor, "*q n p"]:
        """Each entry of psi2 once, for the pairs of :func:`~stratagp.kernels.expectations.from_pairs`."""
        return expectations.psi2_pairs(*self._terms_at(q, z))

    def _terms_at(self, q: Gaussian, z: Tensor) -> tuple[list[Term], Gaussian, Tensor]:
        q, z = self._belief(q), self._points(z, "z")
        if q.mean.shape[-1] != z.shape[-1]:
            raise InputError(f"q.mean has {q.mean.shape[-1]} columns but z has {z.shape[-1]}: they must agree")
        return expectations.terms_of(self, z.shape[-1]), q, z

    def _belief(self, q: Gaussian) -> Gaussian:
        if q.mean.shape != q.var.shape:
            raise InputError(
                f"q needs a variance for each mean, got shapes {tuple(q.mean.shape)} and {tuple(q.var.shape)}"
            )
        return Gaussian(self._points(q.mean, "q.mean"), self._points(q.var, "q.var"))

    def random_features(self, n_features: int, dim: int, generator: torch.Generator | None = None) -> FeatureMap:
        """A finite feature map φ with ``E φ(x)·φ(z) = k(x, z)``, drawn from the kernel's spectral density."""
        raise UnsupportedError(self._no("random features"))

    def _no(self, ability: str) -> str:
        return f"{type(self).__name__} has no {ability}"

    # --- printing ---

    def describe(self) -> str:
        """The kernel as an expression with its values."""
        return f"{type(self).__name__}({', '.join(filter(None, [self._settings(), describe_parameters(self)]))})"

    def _settings(self) -> str:
        """Constructor arguments that are not parameters, as printed; empty for most kernels."""
        return ""

    def __repr__(self) -> str:
        return self.describe()
