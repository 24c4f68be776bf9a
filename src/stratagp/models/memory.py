"""Checks, before any allocation, whether the matrices of exact inference fit into memory."""

from __future__ import annotations

import os
from pathlib import Path

from stratagp.errors import InputError

_SMALL = 10**7  # entries: matrices up to 80 MB are never checked
_MEMINFO = Path("/proc/meminfo")
_GROUPS = Path("/proc/self/cgroup")
_MOUNT = Path("/sys/fs/cgroup")


def check_memory(n: int, what: str, copies: float, bytes_each: int = 8) -> None:
    """Raise if ``copies`` matrices of ``n × n``, held at once, do not fit into memory.

    If the available memory is unknown, nothing is refused.

    >>> check_memory(1000, "conditioning", copies=2)
    >>> check_memory(10**7, "conditioning", copies=2)
    Traceback (most recent call last):
    ...
    stratagp.errors.InputError: conditioning on 10,000,000 rows needs at least 1,600,000.0 GB of memory ...
    """
    if not fits(n, copies, bytes_each):
        need, have = copies * n * n * bytes_each, available_memory() or 0
        raise InputError(
            f"{what} on {n:,} rows needs at least {need / 1e9:,.1f} GB of memory for its {n:,} × {n:,} matrices, but "
            f"{have / 1e9:,.1f} GB are available: use VecchiaGP (GPRegressor(inference='vecchia')), SparseGP "
            f"(inference='sparse'), or at most {int((have / copies / bytes_each) ** 0.5):,} of the rows"
        )


def fits(n: int, copies: float, bytes_each: int = 8) -> bool:
    """Whether ``copies`` matrices of ``n × n`` fit into memory, as far as that is known.

    >>> fits(1000, copies=2), fits(10**7, copies=2)
    (True, False)
    """
    have = None if n * n <= _SMALL else available_memory()
    return have is None or copies * n * n * bytes_each <= have


def available_memory() -> int | None:
    """The bytes that this process may still use: the least that the machine and its control groups have left."""
    known = [_of_the_machine(), *_of_the_groups()]
    return min((left for left in known if left is not None), default=None)


def _of_the_machine() -> int | None:
    available = _fields(_MEMINFO).get("MemAvailable:")
    if available is not None:
        return 1024 * available
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return None


def _of_the_groups() -> list[int | None]:
    """The memory left in each control group of this process, for version 1 (``memory:``) and 2 (``0::``)."""
    left = []
    for line in _read(_GROUPS).splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers in ("", "memory"):
            group = (_MOUNT / controllers / path.lstrip("/")).resolve()
            above = [group, *group.parents]
            left += [
                _left_in(place, version=1 if controllers else 2) for place in above if place.is_relative_to(_MOUNT)
            ]
    return left


def _left_in(group: Path, version: int) -> int | None:
    limit, usage = (
        ("memory.limit_in_bytes", "memory.usage_in_bytes") if version == 1 else ("memory.max", "memory.current")
    )
    most, used = _read(group / limit).strip(), _read(group / usage).strip()
    if not (most.isdigit() and used.isdigit()):  # no such group here, or "max"
        return None
    cache = _fields(group / "memory.stat").get("total_inactive_file" if version == 1 else "inactive_file", 0)
    return max(0, int(most) - int(used) + cache)  # the system drops cached files when memory is short


def _fields(path: Path) -> dict[str, int]:
    rows = (line.split() for line in _read(path).splitlines())
    return {row[0]: int(row[1]) for row in rows if len(row) > 1 and row[1].isdigit()}


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
