"""Every kernel: its formula in plain NumPy, and everything that the shipped check asks of it."""

import inspect

import numpy as np
import pytest

from stratagp.kernels import Kernel, registry
from stratagp.testing import check_kernel
from tests.kernels.cases import CASES


def as_numpy(x):
    return x.numpy() if hasattr(x, "numpy") else x


@pytest.mark.parametrize("name", CASES)
def test_formula(name):
    case = CASES[name]
    kernel, (x, z) = case.make(), case.inputs()
    for right in (z, x):
        expected = case.formula(as_numpy(x), as_numpy(right))
        actual = kernel(x, right).detach().numpy()
        np.testing.assert_allclose(actual, expected, rtol=0, atol=1e-10 * max(1.0, np.abs(expected).max()))


@pytest.mark.parametrize("name", CASES)
def test_check_kernel(name):
    case = CASES[name]
    x, z = case.inputs()
    check_kernel(case.make(), x, z, gradients=case.gradients, functions=case.functions)


def test_every_kernel_has_an_entry():
    ours = {name for name, cls in registry.items() if cls.__module__.startswith("stratagp.")}
    assert ours - {name.split()[0] for name in CASES} == set()
    assert not any(inspect.isabstract(cls) for cls in registry.values())
    assert all(issubclass(cls, Kernel) for cls in registry.values())
