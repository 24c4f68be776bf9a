"""Ready networks for features: fully connected for tables, two convolutional ones for images.

Each ends in a linear map to ``outputs`` features; :class:`~stratagp.layers.Features` standardises and bounds them. Any
other torch module that maps rows to features serves as well.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.utils.parametrizations import spectral_norm

from stratagp.errors import InputError

_WIDEST = 16  # numbers that stand for a category


def fully_connected(
    inputs: int, widths: Sequence[int], dropout: float = 0.0, batch_norm: bool = True, spectral: bool = False
) -> nn.Sequential:
    """Linear maps to each of the ``widths`` in turn, with rectifiers between; the last one is the number of features.

    Arguments:
        dropout: the share of hidden units that training leaves out.
        batch_norm: whether hidden units are standardised over the batch.
        spectral: whether the norm of each map is held at one, which keeps points that differ apart.

    >>> fully_connected(3, [10, 2], batch_norm=False)
    Sequential(
      (0): Linear(in_features=3, out_features=10, bias=True)
      (1): ReLU()
      (2): Linear(in_features=10, out_features=2, bias=True)
    )
    """
    if not widths or any(not isinstance(width, int) or width < 1 for width in (inputs, *widths)):
        raise InputError(f"widths must be positive whole numbers, the last one of features, got {list(widths)}")
    if not 0 <= dropout < 1:
        raise InputError(f"dropout must be a share, from 0 to below 1, got {dropout}")
    parts: list[nn.Module] = []
    for before, width in zip((inputs, *widths), widths, strict=False):
        if parts:
            parts += [nn.BatchNorm1d(before)] if batch_norm else []
            parts += [nn.ReLU()]
            parts += [nn.Dropout(dropout)] if dropout else []
        parts.append(_bounded(nn.Linear(before, width), spectral))
    return nn.Sequential(*parts)


class Embedded(nn.Module):
    """Rows with the codes of categories replaced by vectors that are learnt, beside the other columns.

    Arguments:
        inputs: how many columns a row has.
        sizes: the number of categories of each column of codes, by its place.

    ``outputs`` is the number of columns that come out.

    >>> import torch
    >>> Embedded(3, {1: 5})(torch.tensor([[0.5, 4.0, 2.0]])).shape
    torch.Size([1, 6])
    """

    def __init__(self, inputs: int, sizes: Mapping[int, int]) -> None:
        super().__init__()
        self.numbers = [column for column in range(inputs) if column not in sizes]
        self.codes = list(sizes)
        widths = [min(_WIDEST, 1 + math.isqrt(2 * size)) for size in sizes.values()]
        self.vectors = nn.ModuleList(map(nn.Embedding, sizes.values(), widths))
        self.outputs = len(self.numbers) + sum(widths)

    def forward(self, x: Float[Tensor, "n d"]) -> Float[Tensor, "n e"]:
        """The numbers of each row, and the vectors of its categories."""
        vectors = [own(x[:, column].long()) for own, column in zip(self.vectors, self.codes, strict=True)]
        return torch.cat([x[:, self.numbers], *vectors], 1)


def lenet(channels: int, outputs: int, side: int = 28, dropout: float = 0.0, spectral: bool = False) -> nn.Sequential:
    """Two convolutions of 5 × 5 with pooling and one hidden layer, after LeCun et al. (1998), for square images.

    >>> import torch
    >>> lenet(1, 10)(torch.zeros(2, 1, 28, 28)).shape
    torch.Size([2, 10])
    """
    left = (side // 2 - 4) // 2 if side >= 12 else 0
    if left < 1:
        raise InputError(f"lenet needs images of 12 × 12 pixels at least, got {side} × {side}")
    return nn.Sequential(
        _bounded(nn.Conv2d(channels, 32, 5, padding=2), spectral),
        nn.BatchNorm2d(32),
        nn.ReLU(),
        nn.MaxPool2d(2),
        _bounded(nn.Conv2d(32, 64, 5), spectral),
        nn.BatchNorm2d(64),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Dropout(dropout),
        _bounded(nn.Linear(64 * left**2, 256), spectral),
        nn.BatchNorm1d(256),
        nn.ReLU(),
        nn.Dropout(dropout),
        _bounded(nn.Linear(256, outputs), spectral),
    )


def resnet(
    channels: int, outputs: int, width: int = 16, blocks: int = 1, dropout: float = 0.0, spectral: bool = False
) -> nn.Sequential:
    """Three stages of residual blocks, each of twice the channels and half the side of the one before (He et al. 2016).

    >>> import torch
    >>> resnet(3, 10)(torch.zeros(2, 3, 32, 32)).shape
    torch.Size([2, 10])
    """
    parts: list[nn.Module] = [_bounded(nn.Conv2d(channels, width, 3, padding=1, bias=False), spectral)]
    before = width
    for stage in range(3):
        for block in range(blocks):
            after = width * 2**stage
            parts.append(_Residual(before, after, 2 if stage and not block else 1, spectral))
            before = after
    parts += [nn.BatchNorm2d(before), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(dropout)]
    return nn.Sequential(*parts, _bounded(nn.Linear(before, outputs), spectral))


class _Residual(nn.Module):
    """``x + g(x)``, where ``g`` standardises, rectifies and convolves twice; ``x`` is mapped where shapes differ."""

    def __init__(self, before: int, after: int, stride: int, spectral: bool) -> None:
        super().__init__()
        self.change = nn.Sequential(
            nn.BatchNorm2d(before),
            nn.ReLU(),
            _bounded(nn.Conv2d(before, after, 3, stride, 1, bias=False), spectral),
            nn.BatchNorm2d(after),
            nn.ReLU(),
            _bounded(nn.Conv2d(after, after, 3, padding=1, bias=False), spectral),
        )
        same = before == after and stride == 1
        self.keep = nn.Identity() if same else nn.Conv2d(before, after, 1, stride, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        kept: Tensor = self.keep(x)
        return kept + self.change(x)


def _bounded(part: nn.Module, spectral: bool) -> nn.Module:
    return spectral_norm(part) if spectral else part
