"""Fitted models as graphs that other programs run: an ONNX file, or a program of ``torch.export``."""

from __future__ import annotations

import copy
import importlib.util
import io
import json
import logging
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, redirect_stderr
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from stratagp.errors import InputError, UnsupportedError
from stratagp.export.answer_graphs import ChainGraph, ClassesGraph, TargetsGraph
from stratagp.export.input_graphs import InputGraph
from stratagp.export.onnx_operations import InPlainOperations
from stratagp.models.fitted import Fitted
from stratagp.models.fitted_chain import ChainModel
from stratagp.models.fitted_classes import ClassModel, VecchiaClassModel
from stratagp.models.fitted_process import ProcessModel
from stratagp.models.stack import StackModel
from stratagp.whole_files import appearing

ABOUT = "stratagp"  # the key of the description in ONNX files; with .json, the name of that in torch programs
_SUFFIXES = {"onnx": ".onnx", "torch": ".pt2"}
_TOLERANCE = {torch.float64: 1e-6, torch.float32: 1e-3}  # of answers, beside the largest of them


def export(model: Any, path: str | os.PathLike[str], format: str = "onnx") -> None:
    """Write the map from rows of numbers to predictions as a graph.

    The graph takes ``x``, float64 ``n d`` for any number of rows: one number for each column of the table that the
    model was fitted on, in that order. Dates are in days since 1970-01-01, categories are their number, from 0, in the
    list of categories; scaling is inside. (Of images, ``x`` is float32 and has their shape.) It gives

    - of regression ``mean`` and ``variance``, ``n p``, of observations in the units of the targets;
    - of classification ``probabilities``, ``n c``, in the order of ``classes_``,

    and NaN for rows that the model would refuse: with missing or infinite entries, or numbers that are of no category.

    A description with the names and kinds of columns, categories and classes is in the file, as JSON:
    ``metadata_props`` of ONNX under "stratagp", ``extra_files`` of torch as "stratagp.json".

    ``docs/model_files.md`` has a table of the models for which this is possible. The graph has to answer about two rows
    as the model does before anything is written; whatever cannot be exported is refused.

    Arguments:
        model: a fitted estimator.
        path: of the file, which ends with ``.onnx`` or ``.pt2``; it is replaced if it is there.
        format: "onnx", which needs the packages onnx and onnxscript, or "torch", for ``torch.export.load``.

    >>> import tempfile
    >>> import numpy as np
    >>> from stratagp import GPRegressor
    >>> X = np.linspace(0, 6, 20)[:, None]
    >>> gp = GPRegressor().fit(X, np.sin(X[:, 0]))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     export(gp, f"{folder}/sine.pt2", format="torch")
    ...     program = torch.export.load(f"{folder}/sine.pt2")
    >>> mean, variance = program.module()(torch.tensor([[1.0]], dtype=torch.float64))
    >>> round(mean.item(), 2)  # sin 1 = 0.841
    0.84
    """
    target = Path(path)
    if format not in _SUFFIXES:
        raise InputError(f"format must be 'onnx' or 'torch', got {format!r}")
    if target.suffix != _SUFFIXES[format]:
        raise InputError(f"path must end with {_SUFFIXES[format]} for format={format!r}, got {str(path)!r}")
    if format == "onnx" and importlib.util.find_spec("onnxscript") is None:
        raise InputError("format='onnx' needs onnx and onnxscript: pip install 'stratagp[export]'")
    graph = ModelGraph(model).eval()
    with _quiet():
        with InPlainOperations() if format == "onnx" else nullcontext():
            graph.check(model)  # which also fills caches of constants, before tensors are those of a trace
            program = _program(graph)
        content = _onnx(program, graph) if format == "onnx" else _torch(program, graph)
    with appearing(target) as beside:
        beside.write_bytes(content)


class ModelGraph(nn.Module):
    """From rows of numbers to predictions in the user's units.

    Arguments:
        model: a fitted estimator.

    >>> import numpy as np
    >>> from stratagp import GPRegressor
    >>> X = np.linspace(0, 6, 20)[:, None]
    >>> graph = ModelGraph(GPRegressor().fit(X, np.sin(X[:, 0])))
    >>> graph.about["outputs"], graph.about["columns"]
    (['mean', 'variance'], ['x0'])
    """

    shift: Tensor
    scale: Tensor

    def __init__(self, model: Any) -> None:
        super().__init__()
        if getattr(model, "calibrates", False):
            raise UnsupportedError(
                "export: corrections have no graph: export the model that was calibrated, model.model"
            )
        fitted = _fitted(model)
        self.inputs = InputGraph(model)
        self.of_classes = "classes_" in vars(model)
        self.answer = _answer(fitted, self.of_classes)
        if getattr(model.inputs_, "imputer", None) is not None:
            raise UnsupportedError(
                "export: this model fills missing inputs and averages over what they may be, which a graph cannot do: "
                "fit it on complete rows with missing='raise', or save the model instead"
            )
        if not self.of_classes:
            self.register_buffer("shift", torch.from_numpy(np.array(model.scale_.mean)))
            self.register_buffer("scale", torch.from_numpy(np.array(model.scale_.scale)))
        self.about = {
            "model": type(model).__name__,
            "library": f"stratagp {version('stratagp')}",
            **self.inputs.about,
            "classes": [str(label) for label in vars(model).get("classes_", [])],
            "outputs": ["probabilities"] if self.of_classes else ["mean", "variance"],
        }

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        """``mean`` and ``variance``, or ``probabilities``; NaN for rows that the model would refuse."""
        known = self.inputs.known(x)
        with torch.no_grad():
            found = self._answered(torch.where(known.reshape(-1, *[1] * (x.dim() - 1)), x, 0.0))
        return tuple(torch.where(known, part, torch.nan) for part in found)

    def _answered(self, x: Tensor) -> tuple[Tensor, ...]:
        found: tuple[Tensor, ...] = self.answer(self.inputs(x))
        if self.of_classes:
            return (found[0].double(),)
        p = found[0].shape[-1]  # an observation may have columns that are not predicted, such as censoring
        return found[0] * self.scale[:p] + self.shift[:p], found[1] * self.scale[:p].square()

    def check(self, model: Any) -> None:
        """Refuse a graph that does not say what its model says about the rows that the model keeps as an example."""
        points = model.inputs_.points(model, model._example)
        complete = np.ones(len(points), dtype=bool) if points.incomplete is None else ~points.incomplete
        found = self(self.inputs.numbers(points.values.to(self.inputs.dtype)))
        answers = model._answers()
        expected = [answers["probabilities"]] if self.of_classes else [answers["mean"], answers["std"] ** 2]
        for own, other in zip(found, expected, strict=True):
            wanted = torch.from_numpy(np.asarray(other)).reshape(len(own), -1)[complete]
            gap = float((own[complete] - wanted).abs().max()) if complete.any() else 0.0
            if not gap <= _TOLERANCE[self.inputs.dtype] * float(wanted.abs().max()):
                raise UnsupportedError(
                    f"export: the graph deviates from the model by {gap:.2g}, as its covariances are too close to "
                    "singular for one way of computing: save the model instead"
                )


@contextmanager
def _quiet() -> Iterator[None]:
    """Without the warnings of torch's exporters, and listings of graphs on standard error; errors are ours."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with warnings.catch_warnings(), redirect_stderr(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)


def _fitted(model: Any) -> Fitted:
    """The fitted model of an estimator."""
    if "fitted_" not in vars(model):
        raise InputError(f"export: this {type(model).__name__} is not fitted, or none that can be exported")
    fitted: Fitted = model.fitted_
    return fitted


def _answer(fitted: Fitted, of_classes: bool) -> nn.Module:
    """The graph of what a model says about points."""
    if isinstance(fitted, ChainModel):
        return ChainGraph(copy.deepcopy(fitted.chain).cpu(), of_classes)
    if isinstance(fitted, VecchiaClassModel):
        raise UnsupportedError("Vecchia's process has no constants to export: save the model instead")
    if isinstance(fitted, ClassModel):
        return ClassesGraph(fitted.draws)
    if isinstance(fitted, ProcessModel):
        return TargetsGraph(fitted.draws)
    if isinstance(fitted, StackModel):
        raise UnsupportedError(
            "a stack cannot be exported: export one process, such as GPRegressor or what stratagp fit --model single "
            "learns, or save the stack"
        )
    raise UnsupportedError(f"export does not know {type(fitted).__name__}: save the model instead")


def _program(graph: ModelGraph) -> Any:
    """The traced graph, for any number of rows."""
    example = torch.zeros(3, *graph.inputs.shape, dtype=graph.inputs.dtype)
    rows = {0: torch.export.Dim("n", min=1, max=2**31)}
    try:
        with torch.no_grad():  # torch 2.6 cannot write changes of this mode
            found = torch.export.export(graph, (example,), dynamic_shapes=(rows,), strict=False)
    except Exception as error:
        first = str(error).strip().splitlines()[0][:200] if str(error).strip() else type(error).__name__
        raise UnsupportedError(
            f"export: torch cannot trace a part of this {graph.about['model']}, such as a network with "
            f"spectral=True, or a linear kernel of hidden values ({first}): save the model instead"
        ) from error
    for part in found.graph_module.modules():
        for node in part.graph.nodes if isinstance(part, torch.fx.GraphModule) else ():
            node.meta.pop("stack_trace", None)  # which names files of this machine
    return found


def _torch(program: Any, graph: ModelGraph) -> bytes:
    """The bytes of a torch program, with the description beside it."""
    written = io.BytesIO()
    torch.export.save(program, written, extra_files={f"{ABOUT}.json": json.dumps(graph.about)})
    return written.getvalue()


def _onnx(program: Any, graph: ModelGraph) -> bytes:
    """The bytes of an ONNX file, with the description among its properties."""
    names = [f"answer {i}" for i in range(len(graph.about["outputs"]))]
    try:
        found = torch.onnx.export(program, input_names=["x"], output_names=names, dynamo=True, verbose=False)
    except Exception as error:
        raise UnsupportedError(
            f"export: ONNX has no word for a part of this {graph.about['model']}: format='torch' may have, or save the "
            "model instead"
        ) from error
    assert found is not None
    proto = found.model_proto
    for node in proto.graph.node:
        del node.metadata_props[:]
    _rename(proto.graph, dict(zip(names, graph.about["outputs"], strict=True)))
    proto.metadata_props.add(key=ABOUT, value=json.dumps(graph.about, ensure_ascii=False))
    return bytes(proto.SerializeToString())


def _rename(graph: Any, outputs: dict[str, str]) -> None:
    """Give outputs their names; operations may be called "mean" too, and get others."""
    names = {**{name: f"{name} inside" for name in outputs.values()}, **outputs}
    for node in graph.node:
        for values in (node.input, node.output):
            values[:] = [names.get(value, value) for value in values]
    for value in (*graph.output, *graph.value_info, *graph.initializer):
        value.name = names.get(value.name, value.name)
