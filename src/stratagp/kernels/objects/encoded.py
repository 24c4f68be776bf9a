"""Kernels on what a function makes of objects: texts to graphs, frames to symbols."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from jaxtyping import Float
from torch import Tensor

from stratagp.errors import InputError
from stratagp.kernels.base import Kernel
from stratagp.kernels.objects.base import KernelCache, ObjectKernel

_INNER = ("variance", "lengthscale", "normalise")  # that an encoded kernel has of the kernel inside


def parsed(objects: Sequence[Any], parse: Callable[[Any], Any] | None) -> list[Any]:
    """Every object through ``parse``, where there is one.

    >>> parsed(["ab", "c"], len)
    [2, 1]
    """
    return list(objects) if parse is None else [parse(item) for item in objects]


class Encoded(ObjectKernel):
    """``k(e(x), e(z))``: a kernel on what a function ``e`` makes of a list of objects.

    The function takes a list and returns a list of the same length, and what it makes of one object must not depend on
    the others. Hyperparameters are those of the kernel inside. The kernel can be pickled where the function can.

    Arguments:
        base: the kernel on encoded objects.
        function: from a list of objects to the list of their encodings, such as :meth:`Codebook.encode`. A function
            ``f`` of one object is ``lambda objects: [f(item) for item in objects]``.

    So texts become words: ``Encoded(Spectrum(1), lambda texts: [text.split() for text in texts])``. Where nothing else
    needs the texts, ``X = [text.split() for text in texts]`` with the plain kernel does the same.

    >>> from stratagp import kernels as k
    >>> shared = k.PairFunction(lambda a, b: len(set(a) & set(b)))
    >>> kernel = k.Encoded(shared, lambda words: [word.lower() for word in words])
    >>> kernel(["Gauss"], ["gauss"]).item()
    1.0
    """

    def __init__(self, base: Kernel, function: Callable[[Sequence[Any]], Sequence[Any]]) -> None:
        Kernel.__init__(self)
        if not isinstance(base, ObjectKernel):
            raise InputError(
                f"Encoded takes one kernel on objects, got {type(base).__name__}; encode each part of a sum or product"
            )
        if not callable(function):
            raise InputError(f"function must take a list of objects, got {type(function).__name__}")
        self.base, self.function = base, function

    def __getattr__(self, name: str) -> Any:
        return getattr(self.base, name) if name in _INNER else super().__getattr__(name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _INNER:
            setattr(self.base, name, value)
        else:
            super().__setattr__(name, value)

    def _encoded(self, objects: Sequence[Any]) -> list[Any]:
        try:
            found = self.function(objects)
            found = list(found) if not isinstance(found, (str, bytes)) else [found]
        except InputError:
            raise
        except Exception as error:
            raise InputError(
                f"function failed on a list of {len(objects)} objects, {type(error).__name__}: {error}. It takes the "
                "list and returns a list as long: where f takes one object, write lambda objects: [f(item) for item in "
                "objects]"
            ) from error
        if len(found) != len(objects):
            raise InputError(f"function made {len(found)} objects of {len(objects)}; it must return one for each")
        return found

    def compare(self, x: Sequence[Any], z: Sequence[Any]) -> KernelCache:
        """The similarities of what the function makes of both lists."""
        left = self._encoded(x)
        return self.base.compare(left, left if z is x else self._encoded(z))

    def cache(self, x: Sequence[Any], z: Sequence[Any]) -> KernelCache:
        """The cache of the kernel inside."""
        left = self._encoded(x)
        return self.base.cache(left, left if z is x else self._encoded(z))

    def similarity(self, a: Sequence[Any], b: Sequence[Any]) -> Float[Tensor, "n m"]:
        """The similarity of the kernel inside."""
        left = self._encoded(a)
        return self.base.similarity(left, left if a is b else self._encoded(b))

    def self_similarity(self, a: Sequence[Any]) -> Float[Tensor, " n"]:
        """The self-similarity of the kernel inside."""
        return self.base.self_similarity(self._encoded(a))

    def describe(self) -> str:
        """``Encoded(base, function)``."""
        return f"Encoded({self.base.describe()}, {getattr(self.function, '__qualname__', repr(self.function))})"
