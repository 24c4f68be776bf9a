"""Kernels on sequences of symbols: texts, proteins, lists of tokens."""
