"""The Student-t process: a Gaussian process with an uncertain overall scale, so its error bars adapt to the data.

``f ~ TP(ν, mean, K)`` is a Gaussian process with an inverse-Wishart prior on its covariance (Shah, Wilson and
Ghahramani 2014). The noise is part of K, because a t plus a Gaussian is not a t. Given n observations it is a t process
with ν + n degrees of freedom, the Gaussian posterior's mean, and its covariance times

    (ν + d − 2)/(ν + n − 2),   d = (y − m)ᵀ C⁻¹ (y − m):

wider than the Gaussian's if the data vary more than the kernel expected, narrower if they vary less.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.distributions import constraints

from stratagp.errors import InputError
from stratagp.kernels import Kernel
from stratagp.linalg.student_density import student_log_density
from stratagp.models.data_checks import check_data
from stratagp.models.exact import ExactGP, ExactPosterior
from stratagp.models.memory import check_memory
from stratagp.parameterised import Parameterised
from stratagp.parameters import Parameter, Value
from stratagp.types import Gaussian, NumbersLike, PointsLike


class StudentTProcess(Parameterised):
    """A process with heavier tails than the Gaussian, and regression in closed form.

    Arguments:
        kernel, mean, noise: as in :class:`ExactGP`; the noise scales with the process.
        dof: degrees of freedom ν > 2, learnt unless given as a fixed parameter; for large ν the process is Gaussian.

    >>> from stratagp import kernels as k
    >>> x = torch.linspace(0, 6, 20, dtype=torch.float64)[:, None]
    >>> posterior = StudentTProcess(k.RBF(), dof=5.0, noise=1e-2).condition(x, 10 * x.sin().squeeze())
    >>> posterior.dof  # 5 + 20
    25.0
    """

    dof: Any

    def __init__(
        self, kernel: Kernel, mean: Any = None, noise: Value | Parameter = 0.1, dof: float | Parameter = 5.0
    ) -> None:
        super().__init__()
        self.gaussian = ExactGP(kernel, mean, noise)
        if not isinstance(dof, Parameter):
            if not dof > 2:
                raise InputError(f"dof must be above 2, so that the variance is finite, got {dof}")
            dof = Parameter(dof, constraints.greater_than(2.0), name="dof")
        self.dof = dof

    @property
    def kernel(self) -> Kernel:
        """The kernel of the process, without the noise."""
        return self.gaussian.kernel

    @property
    def noise_parameter(self) -> Parameter | None:
        """The noise variance of the targets."""
        return self.gaussian.noise_parameter

    def log_evidence(self, x: PointsLike, y: NumbersLike) -> Float[Tensor, ""]:
        """``log p(y | x)`` in closed form: the score of the hyperparameters, including dof."""
        x, y = check_data(self.kernel, x, y)
        check_memory(len(y), "the evidence", 2.2, y.element_size())
        gp = self.gaussian
        return student_log_density(y - gp.mean(x), gp.kernel(x), gp.noise, self.dof, "the covariance of the process")

    def condition(self, x: PointsLike, y: NumbersLike) -> StudentTPosterior:
        """The process given observations."""
        posterior = self.gaussian.condition(x, y)
        with torch.no_grad():
            quadratic = float(posterior.residual @ posterior.alpha)
            dof = float(self.dof)
        n = len(posterior.residual)
        scale = (dof + quadratic - 2) / (dof + n - 2)
        return StudentTPosterior(posterior, dof + n, scale)


@dataclass(frozen=True)
class StudentTPosterior:
    """A Student-t process given data: the Gaussian posterior with its covariance rescaled, and ``dof``.

    >>> from stratagp import kernels as k
    >>> x = torch.linspace(0, 6, 20, dtype=torch.float64)[:, None]
    >>> posterior = StudentTProcess(k.RBF(), noise=1e-2).condition(x, 10 * x.sin().squeeze())
    >>> posterior.scale > 1  # wilder than the kernel said
    True
    """

    gaussian: ExactPosterior = field(repr=False)
    dof: float
    scale: float

    def mean(self, x: PointsLike) -> Float[Tensor, " n"]:
        """The expected function at each row: that of the Gaussian process."""
        return self.gaussian.mean(x)

    def covariance(self, x: PointsLike, z: PointsLike | None = None) -> Float[Tensor, "n m"]:
        """The covariance of the function at the points."""
        return self.scale * self.gaussian.covariance(x, z)

    def marginals(self, x: PointsLike) -> Gaussian:
        """Mean and variance of the function at each row, as ``n 1``; add ``noise`` for observations."""
        belief = self.gaussian.marginals(x)
        return Gaussian(belief.mean, self.scale * belief.var)

    @property
    def noise(self) -> Float[Tensor, ""]:
        """The noise variance of a new observation, rescaled like the process."""
        return self.scale * self.gaussian.prior.noise.detach()

    def log_predictive(self, x: PointsLike, y: NumbersLike) -> Float[Tensor, " n"]:
        """``log p(yᵢ | data)`` of new observations: Student t densities with ``dof`` degrees of freedom."""
        x, y = check_data(self.gaussian.prior.kernel, x, y)
        belief = self.marginals(x)
        spread = ((belief.var[:, 0] + self.noise) * (self.dof - 2) / self.dof).sqrt()
        return torch.distributions.StudentT(self.dof, belief.mean[:, 0], spread).log_prob(y)
