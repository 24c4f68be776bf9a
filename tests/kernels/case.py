"""One entry for each kernel: how to build it, its formula in plain NumPy, and points to try it on."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from stratagp.kernels import Kernel


def points(n: int = 9, d: int = 2, seed: int = 0) -> torch.Tensor:
    return torch.randn(n, d, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def unit_points(n: int = 9, d: int = 2, seed: int = 0) -> torch.Tensor:
    return torch.rand(n, d, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def pairwise(function: Callable[[np.ndarray, np.ndarray], float]) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    """The slow, obvious matrix of a function of two points."""
    return lambda x, z: np.array([[function(a, b) for b in z] for a in x])


@dataclass(frozen=True)
class Case:
    """A kernel with the formula of its docstring, written again in NumPy/scipy from (x, z) to the matrix."""

    make: Callable[[], Kernel]
    formula: Callable[[Any, Any], np.ndarray]
    x: Any = None
    z: Any = None
    gradients: bool = True  # of the inputs too
    functions: bool = True  # may carry a function axis

    def inputs(self) -> tuple[Any, Any]:
        x = points() if self.x is None else self.x
        return x, (x[:5] + 0.3 if self.z is None else self.z)
