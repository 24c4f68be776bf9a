"""Linear algebra on tensors: pure functions, one subject a file."""

from stratagp.linalg.cholesky import cholesky as cholesky
from stratagp.linalg.distances import gaussian_kernel as gaussian_kernel
from stratagp.linalg.distances import scaled_sqdist as scaled_sqdist
from stratagp.linalg.gaussian import gaussian_log_density as gaussian_log_density
from stratagp.linalg.interpolation import RegularGrid as RegularGrid
from stratagp.linalg.interpolation import cubic_weights as cubic_weights
from stratagp.linalg.interpolation import interpolate as interpolate
from stratagp.linalg.interpolation import interpolate_diag as interpolate_diag
from stratagp.linalg.interpolation import interpolation_matrix as interpolation_matrix
from stratagp.linalg.interpolation import product_weights as product_weights
from stratagp.linalg.kronecker import kron as kron
from stratagp.linalg.kronecker import kron_diag as kron_diag
from stratagp.linalg.kronecker import kron_gaussian_kl as kron_gaussian_kl
from stratagp.linalg.kronecker import kron_logdet as kron_logdet
from stratagp.linalg.kronecker import kron_matmul as kron_matmul
from stratagp.linalg.kronecker import kron_solve as kron_solve
from stratagp.linalg.kronecker import kron_trace as kron_trace
from stratagp.linalg.kronecker import kron_trace_solve as kron_trace_solve
from stratagp.linalg.kronecker import kron_triangular_solve as kron_triangular_solve
from stratagp.linalg.toeplitz import toeplitz as toeplitz
from stratagp.linalg.toeplitz import toeplitz_cholesky as toeplitz_cholesky
from stratagp.linalg.toeplitz import toeplitz_logdet as toeplitz_logdet
from stratagp.linalg.toeplitz import toeplitz_matmul as toeplitz_matmul
from stratagp.linalg.toeplitz import toeplitz_solve as toeplitz_solve
from stratagp.linalg.triangular import whitened_marginals as whitened_marginals
