"""Kernels on lists of arbitrary objects: what all of them share, and those on sets and sequences of vectors."""
