"""Covariance functions: what is similar to what."""

from stratagp.kernels.algebra import OnColumns as OnColumns
from stratagp.kernels.algebra import Power as Power
from stratagp.kernels.algebra import Product as Product
from stratagp.kernels.algebra import Rescaled as Rescaled
from stratagp.kernels.algebra import Separate as Separate
from stratagp.kernels.algebra import Sum as Sum
from stratagp.kernels.algebra import Warped as Warped
from stratagp.kernels.base import Kernel as Kernel
from stratagp.kernels.base import registry as registry
from stratagp.kernels.constant import Constant as Constant
from stratagp.kernels.constant import White as White
from stratagp.kernels.stationary import RBF as RBF
from stratagp.kernels.stationary import Exponential as Exponential
from stratagp.kernels.stationary import PiecewisePolynomial as PiecewisePolynomial
from stratagp.kernels.stationary import RationalQuadratic as RationalQuadratic
