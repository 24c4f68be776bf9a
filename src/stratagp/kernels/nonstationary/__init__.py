"""Kernels that depend on where the points are: inner products, wide networks, changes, Brownian motion."""
