"""Linear algebra on tensors: pure functions, one subject a file."""

from stratagp.linalg.cholesky import cholesky as cholesky
from stratagp.linalg.distances import gaussian_kernel as gaussian_kernel
from stratagp.linalg.distances import scaled_sqdist as scaled_sqdist
from stratagp.linalg.gaussian import gaussian_log_density as gaussian_log_density
from stratagp.linalg.triangular import whitened_marginals as whitened_marginals
