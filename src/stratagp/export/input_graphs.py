"""From a table of numbers to the points that a model sees: categories by their number, scaling inside."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

from stratagp.data.dates import PERIODS
from stratagp.errors import UnsupportedError


class InputGraph(nn.Module):
    """Rows ``n d`` with one number for each column of the table, or images, as points.

    Numbers are as they are, dates and durations in days (since 1970-01-01), and a category is its number in the list of
    categories, from 0. ``about`` says which column is which.

    Arguments:
        model: a fitted estimator.
    """

    centre: Tensor
    spread: Tensor

    def __init__(self, model: Any) -> None:
        super().__init__()
        inputs = model.inputs_
        _refuse_objects(inputs)
        self.images = bool(inputs.shape)
        self.dtype = torch.float32 if self.images else torch.float64
        encoder = inputs.encoder
        self.categories: dict[int, int] = {} if encoder is None else encoder.sizes
        self.sizes = {} if encoder is None or encoder.encoding == "codes" else self.categories
        self.periods = {} if encoder is None else _periods(encoder)
        self.shape = tuple(inputs.shape) if self.images else (int(model.n_features_in_),)
        for name, value, default in (("centre", inputs.centre, 0.0), ("spread", inputs.scale, 1.0)):
            given = torch.tensor(default) if value is None else value.clone()
            self.register_buffer(name, given.to(self.dtype))
        self.about = {} if self.images else _columns(model, encoder)

    def forward(self, x: Tensor) -> Tensor:
        """The points of rows."""
        if self.images:
            x = x[:, None] if len(self.shape) == 2 else x
        elif self.sizes or self.periods:
            x = torch.cat([self._block(x[:, i : i + 1], i) for i in range(self.shape[0])], 1)
        return (x - self.centre) / self.spread

    def known(self, x: Tensor) -> Tensor:
        """Which rows the model has an answer to, ``n 1``: all entries are finite, and codes those of categories."""
        fine = (x - x == 0).flatten(1).all(1, keepdim=True)
        for place, size in self.categories.items():
            column = x[:, place : place + 1]
            fine = fine & (column == torch.arange(size).to(column)).any(1, keepdim=True)
        return fine

    def _block(self, column: Tensor, place: int) -> Tensor:
        """A column as it is, a date with its waves, or the indicators of a category."""
        size = self.sizes.get(place)
        if place in self.periods:
            angles = [2 * math.pi / period * column for period in self.periods[place]]
            return torch.cat([column, *(wave for angle in angles for wave in (angle.sin(), angle.cos()))], 1)
        return column if size is None else (column == torch.arange(size).to(column)).to(column)

    def numbers(self, points: Tensor) -> Tensor:
        """The rows of points: what would have to be given for these; for the test of a graph."""
        x = points * self.spread + self.centre
        if self.images:
            return x[:, 0] if len(self.shape) == 2 else x
        found, start = [], 0
        for place in range(self.shape[0]):
            size = self.sizes.get(place)
            block = x[:, start : start + (size or 1 + 2 * len(self.periods.get(place, ())))]
            found.append(block[:, :1] if size is None else block.argmax(1, keepdim=True).to(x))
            start += block.shape[1]
        return torch.cat(found, 1)


def _refuse_objects(inputs: Any) -> None:
    """Refuse inputs that are no table of columns, and no images."""
    if inputs.objects or inputs.anchors:
        raise UnsupportedError(
            "export is for tables of numbers and categories, and for images: objects such as texts and graphs are "
            "compared by code that a graph cannot hold; save the model instead"
        )
    if inputs.takes_views:
        raise UnsupportedError(
            "export is for one table: fit on one with views as groups of its columns, or save the model instead"
        )


def _periods(encoder: Any) -> dict[int, list[float]]:
    """The periods of the waves of each column of dates, by its place."""
    return {
        place: [PERIODS[part] for part in encoder.date_parts.get(name, ())]
        for place, name in enumerate(encoder._names)
        if encoder.date_parts.get(name)
    }


def _columns(model: Any, encoder: Any) -> dict[str, Any]:
    """The columns of ``x`` in their order, what each is, and the categories of those that have some, in theirs."""
    names = [str(name) for name in vars(model).get("feature_names_in_", [])]
    names = names or [f"x{i}" for i in range(int(model.n_features_in_))]
    known = {} if encoder is None else encoder.categories
    kinds = ["number"] * len(names) if encoder is None else list(encoder._kinds)
    categories = {str(name): [str(value) for value in own] for name, own in known.items()}
    return {"columns": names, "kinds": kinds, "categories": categories}
