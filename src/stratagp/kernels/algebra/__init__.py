"""Kernels built from kernels: sums, products, powers, columns, warped inputs, effects, smoothed processes."""

from stratagp.kernels.algebra.arithmetic import Power, Product, Sum
from stratagp.kernels.algebra.on_columns import OnColumns
from stratagp.kernels.algebra.warped import Warped
from stratagp.kernels.base import Kernel, Operators

Kernel.operators = Operators(Sum, Product, Power, OnColumns, Warped)
