"""Kernels of the difference of two points alone: the RBF, Matérn, periodic, spectral and constant ones."""
