"""Which files a path, a folder, a pattern or an address refers to."""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterable, Sequence
from itertools import takewhile
from pathlib import Path, PurePath, PurePosixPath
from typing import Any, NamedTuple

from stratagp.errors import InputError

_TEXTS = (".csv", ".tsv", ".txt", ".csv.gz", ".tsv.gz")
_TABLES = (".parquet", ".pq")
_SIGNS = "*?["  # characters of patterns


class Listing(NamedTuple):
    """The files of a table.

    Arguments:
        files: in order, as messages name them.
        system: their fsspec file system; None for local files.
        root: the given folder, that of a given file, the one above all that a pattern can match, or the one above all
            files of a list.
    """

    files: list[str]
    system: Any
    root: PurePath

    def below(self, file: str) -> tuple[str, ...]:
        """The names of the folders between the root and a file."""
        return _whole(file, self.system).parts[len(self.root.parts) : -1]


def list_files(where: Any) -> Listing:
    """The files of one or more paths, folders or patterns.

    Folders and patterns skip names that start with ``_`` or ``.``, which are markers of other programs.
    """
    if isinstance(where, (list, tuple)):
        return _of_several([list_files(each) for each in where], where)
    address = _address(where)
    if "://" not in address:
        path = Path(address)
        root = _fixed(address) if _is_pattern(address) and not path.exists() else path if path.is_dir() else path.parent
        return Listing(_some(_listed(address, path), where), None, _whole(root, None))
    system, place = importlib.import_module("fsspec").core.url_to_fs(address)
    if _is_pattern(place):
        files, root = _of_pattern(system.glob(place), place), _fixed(place)
    elif system.isdir(place):
        files, root = _of_folder(system.find(place), place), PurePath(place)
    else:
        files, root = [place], PurePath(place).parent
    return Listing(_some(files, where), system, _whole(root, system))


def _of_several(found: Sequence[Listing], where: Any) -> Listing:
    """The files of a list, with the folder that they share as root."""
    if len({type(each.system) for each in found}) > 1:
        raise InputError("files must share one file system: give only local paths, or only addresses of one kind")
    files = _some([file for each in found for file in each.files], where)
    common = takewhile(lambda names: len(set(names)) == 1, zip(*(each.root.parts for each in found), strict=False))
    return Listing(files, found[0].system, type(found[0].root)(*(names[0] for names in common)))


def _whole(path: Any, system: Any) -> PurePath:
    """A path with all its parent folders."""
    return PurePath(os.path.abspath(path)) if system is None else PurePosixPath(path)


def _is_pattern(path: str) -> bool:
    return any(sign in path for sign in _SIGNS)


def _fixed(pattern: str) -> PurePath:
    """The folder that contains everything a pattern can match."""
    return PurePath(*takewhile(lambda part: not _is_pattern(part), PurePath(pattern).parts[:-1]))


def kind_of_file(file: str) -> str | None:
    """What a file is by its name: "table" (Parquet), "text" (CSV) or ".npy"; None if it is none of these.

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
    """The kind that all files share; if they differ, the error names one of each."""
    examples = {kind_of_file(file): file for file in reversed(files)}
    kind = kind_of_file(files[0])
    if len(examples) > 1:
        named = " and ".join(examples[each] for each in sorted(examples, key=str))
        raise InputError(f"files must be of one kind, got {named}: give a pattern such as 'folder/*.parquet'")
    if kind is None:
        raise InputError(f"{files[0]} must end with .parquet, .csv (.tsv, .txt, also with .gz) or .npy")
    return kind


def would_read(where: Any, path: Path) -> bool:
    """Whether ``where`` would include a local path, as a file, in its folder or by its pattern, existing or not."""
    if isinstance(where, (list, tuple)):
        return any(would_read(each, path) for each in where)
    address, place = _address(where).removeprefix("file://"), path.resolve()
    if "://" in address:
        return False
    given = Path(address)
    if _is_pattern(address) and not given.exists():
        there = {Path(file).resolve() for file in _listed(address, given)}
        return place.match(str(given.resolve())) or place in there
    return place == given.resolve() or given.resolve() in place.parents


def _address(where: Any) -> str:
    if not isinstance(where, (str, os.PathLike)):
        raise InputError(
            f"X must be a path or a Source, got {type(where).__name__}: for rows in memory use data.Frame(frame) or "
            "data.Arrays(X)"
        )
    return str(os.fspath(where))


def _listed(address: str, path: Path) -> list[str]:
    if _is_pattern(address) and not path.exists():
        found = Path(path.anchor or ".").glob(str(path.relative_to(path.anchor) if path.anchor else path))
        return _of_pattern((str(each) for each in found if each.is_file()), address)
    if path.is_dir():
        return _of_folder((str(each) for each in path.rglob("*") if each.is_file()), path)
    if not path.exists():
        raise InputError(f"{address} does not exist")
    return [address]


def _of_pattern(found: Iterable[str], pattern: str) -> list[str]:
    """The matches of a pattern, without marker files and folders unless the pattern asks for them."""
    fixed = len(_fixed(pattern).parts)
    asked = any(map(_is_mark, PurePath(pattern).parts[fixed:]))
    return sorted(file for file in found if asked or not any(map(_is_mark, PurePath(file).parts[fixed:])))


def _of_folder(found: Iterable[str], folder: Any) -> list[str]:
    """The tables in a folder, without marker files and folders."""
    inside = ((file, PurePath(file).parts[len(PurePath(folder).parts) :]) for file in found)
    return sorted(file for file, parts in inside if kind_of_file(file) and not any(map(_is_mark, parts)))


def _is_mark(name: str) -> bool:
    return name.startswith(("_", "."))


def _some(files: list[str], where: Any) -> list[str]:
    if not files:
        shown = ", ".join(map(str, where)) if isinstance(where, (list, tuple)) else where
        raise InputError(f"{shown or 'an empty list'} has no table files: expected .parquet, .csv, .tsv or .npy")
    return files
