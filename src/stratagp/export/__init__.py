"""Fitted models as graphs for other programs: ONNX files, and programs of torch."""

from stratagp.export.programs import export

__all__ = ["export"]
