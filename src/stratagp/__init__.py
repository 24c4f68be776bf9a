"""Gaussian-process models, shallow and deep, with uncertainty you can trust."""
