"""The network of a deep kernel: the module that was given, or one made for the rows, tried on the first of them."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterable, Mapping
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from stratagp import networks
from stratagp.errors import InputError

_TABLES, _IMAGES = (128, 64, 16), 16  # widths of the default network of tables, and features of those of images
_OF_IMAGES = ("lenet", "resnet")
_LENET = 12  # pixels of a side, at least


def make_network(
    given: Any,
    x: Float[Tensor, "n ..."],
    code_sizes: Mapping[int, int] | None,
    dropout: float,
    batch_norm: bool,
    spectral: bool,
) -> nn.Module:
    """A copy of the given module, or one made for the rows.

    Arguments:
        given: a module, widths, or a name.
        x: the rows, a table or images.
        code_sizes: how many categories each column of codes has; codes are embedded.
        dropout, batch_norm, spectral: of networks that are made.
    """
    options: dict[str, Any] = {"dropout": dropout, "batch_norm": batch_norm, "spectral": spectral}
    if isinstance(given, nn.Module):
        return copy.deepcopy(given)
    if isinstance(given, str) and given in ("auto", *_OF_IMAGES):
        if x.dim() == 4:
            return _image_network(given, x, dropout, spectral)
        if given != "auto":
            raise InputError(
                f"network={given!r} takes images (n, h, w) or (n, c, h, w), but X is a table {tuple(x.shape)}: give X "
                "as images, or take 'auto' or widths such as [64, 16]"
            )
        given = _TABLES
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise InputError(
            f"network must be 'auto', 'lenet' or 'resnet' (of images), a list of widths or a torch module, got "
            f"{given!r}"
        )
    inputs, widths = math.prod(x.shape[1:]), list(given)
    if x.dim() == 4:
        return nn.Sequential(nn.Flatten(), networks.fully_connected(inputs, widths, **options))
    if code_sizes is None:
        return networks.fully_connected(inputs, widths, **options)
    embedded = networks.Embedded(inputs, code_sizes)
    return nn.Sequential(embedded, networks.fully_connected(embedded.outputs, widths, **options))


def _image_network(name: str, x: Float[Tensor, "n c h w"], dropout: float, spectral: bool) -> nn.Module:
    channels, height, width = x.shape[1:]
    if name == "resnet" or (name == "auto" and (height != width or height < _LENET)):
        return networks.resnet(channels, _IMAGES, dropout=dropout, spectral=spectral)
    if height != width:
        raise InputError(f"network='lenet' is for square images, got {height} × {width}: take 'resnet'")
    return networks.lenet(channels, _IMAGES, height, dropout, spectral)


def count_features(network: nn.Module, rows: Float[Tensor, "n ..."]) -> int:
    """How many features a network gives; refuses one that does not give finite features for each of the rows."""
    try:
        with torch.no_grad():
            found = network(rows)
    except (RuntimeError, ValueError, TypeError, IndexError) as error:
        raise InputError(f"network must take rows of shape {tuple(rows.shape[1:])}, but fails: {error}") from error
    if not isinstance(found, Tensor):
        raise InputError(f"network must give features (n, q) as a tensor, got {type(found).__name__}")
    n, shape = len(rows), tuple(found.shape)
    if found.dim() != 2 or len(found) != n or not found.shape[1]:
        raise InputError(
            f"network must give features (n, q), one row of them for each row, but gives {shape} for n = {n} rows"
        )
    if not found.is_floating_point() or found.dtype == torch.float64:
        raise InputError(f"network must give features of {rows.dtype}, the type of its rows, got {found.dtype}")
    if not bool(found.isfinite().all()):
        raise InputError(f"network must give finite features, but gives NaN or infinity for the first {n} rows of X")
    return found.shape[1]
