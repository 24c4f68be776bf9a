"""Which files a path, a folder, a pattern or an address stands for."""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterable
from pathlib import Path, PurePath
from typing import Any

from stratagp.errors import InputError

_TEXTS = (".csv", ".tsv", ".txt", ".csv.gz", ".tsv.gz")
_TABLES = (".parquet", ".pq")
_SIGNS = "*?["  # of patterns


def list_files(where: Any) -> tuple[list[str], Any]:
    """The files of one or more paths, folders or patterns, in order, and the system they are in (None if here).

    Of folders and patterns, names that start with ``_`` or ``.`` are left out: marks that other programs leave.
    """
    if isinstance(where, (list, tuple)):
        found = [list_files(each) for each in where]
        systems = [system for _, system in found]
        if len({type(system) for system in systems}) > 1:
            raise InputError("give files of one system: all here, or all at addresses of one kind")
        files = [file for each, _ in found for file in each]
        return _some(files, where), systems[0] if systems else None
    address = _address(where)
    if "://" not in address:
        return _some(_listed(address, Path(address)), where), None
    system, path = importlib.import_module("fsspec").core.url_to_fs(address)
    if any(sign in path for sign in _SIGNS):
        files = _of_pattern(system.glob(path), path)
    else:
        files = _of_folder(system.find(path), path) if system.isdir(path) else [path]
    return _some(files, where), system


def kind_of_file(file: str) -> str | None:
    """What a file is by its name: "table" (Parquet), "text" (CSV) or ".npy"; None where it is none of these.

    >>> kind_of_file("a.parquet"), kind_of_file("a.CSV.gz"), kind_of_file("_SUCCESS")
    ('table', 'text', None)
    """
    name = file.lower()
    if name.endswith(_TABLES):
        return "table"
    if name.endswith(_TEXTS):
        return "text"
    return ".npy" if name.endswith(".npy") else None


def one_kind(files: list[str]) -> str:
    """The kind of files, which must all be of one; else one of each is named."""
    examples = {kind_of_file(file): file for file in reversed(files)}
    kind = kind_of_file(files[0])
    if len(examples) > 1:
        named = " and ".join(examples[each] for each in sorted(examples, key=str))
        raise InputError(f"files must be of one kind, got {named}: give a pattern such as 'folder/*.parquet'")
    if kind is None:
        raise InputError(f"{files[0]} must end with .parquet, .csv (.tsv, .txt, also with .gz) or .npy")
    return kind


def would_read(where: Any, path: Path) -> bool:
    """Whether a path here is among the files of ``where``, in its folder or of its pattern, be it there yet or not."""
    if isinstance(where, (list, tuple)):
        return any(would_read(each, path) for each in where)
    address, place = _address(where).removeprefix("file://"), path.resolve()
    if "://" in address:
        return False
    given = Path(address)
    if any(sign in address for sign in _SIGNS) and not given.exists():
        there = {Path(file).resolve() for file in _listed(address, given)}
        return place.match(str(given.resolve())) or place in there
    return place == given.resolve() or given.resolve() in place.parents


def _address(where: Any) -> str:
    if not isinstance(where, (str, os.PathLike)):
        raise InputError(
            f"X must be the path of files, or a Source, got {type(where).__name__}: data.Frame(frame) and "
            "data.Arrays(X) make one of rows in memory"
        )
    return str(os.fspath(where))


def _listed(address: str, path: Path) -> list[str]:
    if any(sign in address for sign in _SIGNS) and not path.exists():
        found = Path(path.anchor or ".").glob(str(path.relative_to(path.anchor) if path.anchor else path))
        return _of_pattern((str(each) for each in found if each.is_file()), address)
    if path.is_dir():
        return _of_folder((str(each) for each in path.rglob("*") if each.is_file()), path)
    if not path.exists():
        raise InputError(f"{address} does not exist")
    return [address]


def _of_pattern(found: Iterable[str], pattern: str) -> list[str]:
    """What a pattern has found, without marks, unless it asks for them."""
    return sorted(f for f in found if not _is_mark(PurePath(f).name) or _is_mark(PurePath(pattern).name))


def _of_folder(found: Iterable[str], folder: Any) -> list[str]:
    """The tables of a folder; neither marks nor what is in folders that are."""
    inside = ((file, PurePath(file).parts[len(PurePath(folder).parts) :]) for file in found)
    return sorted(file for file, parts in inside if kind_of_file(file) and not any(map(_is_mark, parts)))


def _is_mark(name: str) -> bool:
    return name.startswith(("_", "."))


def _some(files: list[str], where: Any) -> list[str]:
    if not files:
        shown = ", ".join(map(str, where)) if isinstance(where, (list, tuple)) else where
        raise InputError(f"{shown or 'an empty list'} has no files of a table: .parquet, .csv, .tsv or .npy")
    return files
