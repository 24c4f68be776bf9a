"""Processes whose noise varies, and processes whose overall scale is uncertain."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import Any

from torch.distributions import constraints

from stratagp.errors import InputError
from stratagp.kernels import RBF, Kernel
from stratagp.models import HeteroscedasticGP, StudentTProcess
from stratagp.models.fitted_process import HeteroscedasticModel, StudentTModel
from stratagp.parameters import Parameter
from stratagp.recipes.base import FitContext, Recipe, Rows
from stratagp.recipes.exact import learnt_noise
from stratagp.recipes.processes import fit_process
from stratagp.recipes.search import Search
from stratagp.training.start import start_from_data

_START = 5.0  # of degrees of freedom that are learnt
_LEAST = 2.5  # of these: near 2 the kernel's variance grows without end, and noise at its lower end becomes rounding


@dataclass(frozen=True)
class HeteroscedasticRecipe(Recipe):
    """Learn a process and the process of its log noise."""

    kernel: Kernel
    mean: Any = None
    search: Search = field(default_factory=Search)

    def fit(self, rows: Rows, context: FitContext) -> HeteroscedasticModel:
        """Start both processes from the data, climb, condition."""
        data = rows.data
        if rows.filled is not None:
            raise InputError("noise='heteroscedastic' takes complete rows in training: fill or drop missing inputs")
        if data.y.shape[1] > 1 or data.weights is not None:
            raise InputError("noise='heteroscedastic' takes one target, and no sample weights")
        kernel = start_from_data(self.kernel, data.x, data.y[:, 0])
        noise_kernel = None
        if kernel.takes_tensors:
            noise_kernel = start_from_data(RBF(ard=data.x.shape[1]), data.x, data.y[:, 0])
        prior = HeteroscedasticGP(kernel, noise_kernel, copy.deepcopy(self.mean), learnt_noise())
        return fit_process(HeteroscedasticModel(prior, data), self.search, rows, context)


@dataclass(frozen=True)
class StudentTRecipe(Recipe):
    """Learn a Student-t process with ``dof`` degrees of freedom, which are learnt too where they are left out.

    Rows with filled inputs count as complete: the scale of the process tells how wrong they are.
    """

    kernel: Kernel
    dof: float | None = None
    mean: Any = None
    search: Search = field(default_factory=Search)

    def fit(self, rows: Rows, context: FitContext) -> StudentTModel:
        """Start from the data, climb, condition."""
        kernel = start_from_data(self.kernel, rows.data.x, rows.data.y[:, 0])
        dof = self.dof or Parameter(_START, constraints.greater_than(_LEAST), name="dof")
        prior = StudentTProcess(kernel, copy.deepcopy(self.mean), learnt_noise(), dof)
        prior.parameter("dof").raw.requires_grad_(self.dof is None)
        return fit_process(StudentTModel(prior, rows.data), self.search, Rows(rows.data), context)
