"""Kernels on labelled graphs, on trees and on molecules."""
