"""Kernels that depend only on the difference of two points: RBF, Matérn, periodic, spectral and constant."""
