"""All the kernel cases of the library."""

from tests.kernels import (
    cases_core,
    cases_derivatives_outputs,
    cases_linear_metric,
    cases_matern_periodic,
    cases_strings,
    cases_structures,
)

CASES = {
    **cases_core.CASES,
    **cases_matern_periodic.CASES,
    **cases_linear_metric.CASES,
    **cases_derivatives_outputs.CASES,
    **cases_strings.CASES,
    **cases_structures.CASES,
}
