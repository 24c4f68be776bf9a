"""Kernels of several outputs, or of values and slopes: the last column of a point tells which."""
