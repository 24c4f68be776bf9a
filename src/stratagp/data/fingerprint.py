"""Fingerprints, which tell one set of data from another."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import numpy as np
from torch import Tensor

from stratagp.data.sampling import row_hashes
from stratagp.data.tables import is_frame, pandas_like


def fingerprint(*parts: object) -> str:
    """A fingerprint that differs between sets of data.

    >>> fingerprint([1.0, 2.0]) == fingerprint([1.0, 2.0]), fingerprint([1.0]) == fingerprint([2.0])
    (True, False)
    """
    digest = hashlib.blake2b(digest_size=16)
    for part in parts:
        _digest(digest, part)
    return digest.hexdigest()


def _digest(digest: Any, values: Any) -> None:
    """Take in arrays, frames, texts and containers of these; of other objects only how many there are."""
    if isinstance(values, Mapping):
        values = list(values.items())
    if isinstance(values, (list, tuple)):
        digest.update(f"{len(values)} ".encode())
        for value in values:
            _digest(digest, value)
    elif is_frame(values):
        digest.update(np.asarray(row_hashes(pandas_like(values))).tobytes())
    elif isinstance(values, (np.ndarray, np.generic, Tensor)) or hasattr(values, "dtype"):  # also a column of a frame
        array = np.asarray(values)
        digest.update(array.tobytes() if array.dtype.kind != "O" else repr(array.ravel().tolist()).encode())
    elif isinstance(values, (str, bytes, int, float)):
        digest.update(repr(values).encode())
