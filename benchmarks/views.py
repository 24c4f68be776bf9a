"""Eight views of images of 28 × 28 grey values: descriptions of the same image that kernels can be put on one by one.

They stand for the views of the cell events of Kandemir and Hamprecht (2015), which took a histogram of intensities,
local binary patterns and SIFT at two times; here the time is one and the descriptions are more.
"""

from __future__ import annotations

import numpy as np
from scipy.fft import dctn

SIDE = 28
INK = 0.5  # a pixel above it belongs to the stroke
LEVELS, ORIENTATIONS, CELLS, FREQUENCIES = 26, 8, 4, 8
CLIP = 0.2  # the most one entry of a unit vector of gradients may hold, as in SIFT
RING = [(0, 0), (0, 1), (0, 2), (1, 2), (2, 2), (2, 1), (2, 0), (1, 0)]  # neighbours of (1, 1), in a circle


def views(images: np.ndarray) -> dict[str, np.ndarray]:
    """Features of n × 784 values in [0, 1], by name of the view: n × d each, not standardised."""
    if images.ndim != 2 or images.shape[1] != SIDE**2:
        raise ValueError(f"images must be n × {SIDE**2}, got {images.shape}")
    x = np.asarray(images, dtype=np.float64).reshape(-1, SIDE, SIDE)
    return {
        "pixels": block_means(x, 2),
        "intensities": intensities(x),
        "patterns": binary_patterns(x),
        "gradients": oriented_gradients(x),
        "projections": np.concatenate([x.mean(1), x.mean(2)], 1),
        "zones": block_means(x > INK, 4),
        "frequencies": dctn(x, axes=(1, 2), norm="ortho")[:, :FREQUENCIES, :FREQUENCIES].reshape(len(x), -1),
        "profiles": profiles(x),
    }


def block_means(x: np.ndarray, size: int) -> np.ndarray:
    """Means of square blocks of pixels: grey values at a lower resolution, or the share of the stroke."""
    blocks = SIDE // size
    return x.reshape(-1, blocks, size, blocks, size).mean((2, 4)).reshape(len(x), -1)


def intensities(x: np.ndarray) -> np.ndarray:
    """The share of the pixels at each of 26 levels of grey."""
    level = np.minimum((x * LEVELS).astype(int), LEVELS - 1)
    return histograms(level.reshape(len(x), -1), LEVELS) / SIDE**2


def binary_patterns(x: np.ndarray) -> np.ndarray:
    """Local binary patterns by quadrant: the shares of the 58 uniform ones and of all others.

    Bit i of a pattern says that neighbour i on the ring of eight is at least as bright as the pixel; a pattern is
    uniform where its bits change at most twice around the ring.
    """
    inner = SIDE - 2
    centre = x[:, 1:-1, 1:-1]
    code = sum((x[:, r : r + inner, c : c + inner] >= centre) << i for i, (r, c) in enumerate(RING))
    bits = np.arange(256)[:, None] >> np.arange(8) & 1
    uniform = (bits != np.roll(bits, 1, 1)).sum(1) <= 2
    label = np.where(uniform, np.cumsum(uniform) - 1, uniform.sum())[code]
    half = inner // 2
    quadrants = label.reshape(-1, 2, half, 2, half).transpose(0, 1, 3, 2, 4).reshape(-1, half**2)
    return histograms(quadrants, uniform.sum() + 1).reshape(len(x), -1) / half**2


def oriented_gradients(x: np.ndarray) -> np.ndarray:
    """Gradient magnitudes by direction, 8 of them in each of 4 × 4 cells: a SIFT descriptor without its weights.

    A magnitude is shared linearly by the two nearest directions. The vector of 128 is brought to length 1, its entries
    to at most 0.2, and its length to 1 again.
    """
    dy, dx = np.gradient(x, axis=(1, 2))
    magnitude = np.hypot(dy, dx)
    direction = np.arctan2(dy, dx) % (2 * np.pi) * (ORIENTATIONS / (2 * np.pi))
    lower = np.floor(direction).astype(int)
    share = direction - lower
    cell = np.arange(SIDE) // (SIDE // CELLS)
    offset = (cell[:, None] * CELLS + cell) * ORIENTATIONS
    bins = CELLS**2 * ORIENTATIONS
    found = np.zeros((len(x), bins))
    for step, weight in ((0, 1 - share), (1, share)):
        place = offset + (lower + step) % ORIENTATIONS
        found += histograms(place.reshape(len(x), -1), bins, (magnitude * weight).reshape(len(x), -1))
    return unit(np.minimum(unit(found), CLIP))


def profiles(x: np.ndarray) -> np.ndarray:
    """How far the stroke is from each side, as a share of the width: by row from left and right, then by column."""
    ink = x > INK
    sides = (ink, ink[:, :, ::-1], ink.transpose(0, 2, 1), ink.transpose(0, 2, 1)[:, :, ::-1])
    return np.concatenate([np.where(side.any(2), side.argmax(2), SIDE) / SIDE for side in sides], 1)


def histograms(values: np.ndarray, bins: int, weights: np.ndarray | None = None) -> np.ndarray:
    """How often each of the integers 0 to ``bins`` − 1 stands in each row, or the weights it stands there with."""
    place = values + bins * np.arange(len(values))[:, None]
    counts = np.bincount(place.ravel(), None if weights is None else weights.ravel(), bins * len(values))
    return counts.reshape(len(values), bins).astype(np.float64)


def unit(rows: np.ndarray) -> np.ndarray:
    """Rows brought to length 1; a row of zeros stays."""
    length = np.linalg.norm(rows, axis=1, keepdims=True)
    return rows / np.where(length > 0, length, 1.0)
