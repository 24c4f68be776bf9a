"""Kernels on labelled graphs, trees and molecules."""
