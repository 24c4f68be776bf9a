"""Files that appear whole: whoever looks finds the old one or the new one, even after a crash."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def write_whole(path: Path, content: bytes) -> None:
    """Write a file.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_whole(Path(folder) / "model.txt", b"all of it")
    ...     (Path(folder) / "model.txt").read_text()
    'all of it'
    """
    with appearing(path) as beside:
        beside.write_bytes(content)


@contextmanager
def appearing(path: Path) -> Iterator[Path]:
    """A path beside ``path`` to write to; it takes the place of ``path`` at the end, if all went well.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with appearing(Path(folder) / "model.txt") as beside:
    ...         size = beside.write_text("all of it")
    ...     (Path(folder) / "model.txt").read_text()
    'all of it'
    """
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        yield beside
        _flush(beside)
        os.replace(beside, path)
    finally:
        beside.unlink(missing_ok=True)
    _flush(path.parent)


def _flush(path: Path) -> None:
    """Wait until a file or folder is on the disk."""
    opened = os.open(path, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
