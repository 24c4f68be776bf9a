"""Copies of CSV files in Parquet, made once for all processes of a machine.

CSV files have no parts that could be found without reading them. Where ``torchrun`` has started several processes, all
that open the same files share one folder of copies: the first to lock it makes them, the others wait for the lock. A
process that dies loses its locks, so that nobody waits for it; where the copies are not done, the next one makes them,
and meets whatever is wrong with the files itself. The last process that leaves the folder removes it.
"""

from __future__ import annotations

import gzip
import hashlib
import importlib
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from stratagp.errors import InputError
from stratagp.training.progress import log

try:
    import fcntl
except ImportError:  # a system without such locks, where each process has copies of its own
    fcntl = None  # type: ignore[assignment]

_BLOCK = 8 << 20  # bytes that are read at once
_GROUP_ROWS = 1 << 16
_MISFIT = re.compile(r"In CSV column #(\d+): (?:Row #\d+: )?CSV conversion error to (\w+)")
_NUMBERED = re.compile(r"In CSV column #(\d+): ")
_DOOR, _ROOM, _DONE = "door", "room", "done"


def copy_once(files: Sequence[str], system: Any) -> tuple[list[str], Callable[[], None]]:
    """Paths of copies of CSV files, and what is to be called when they are no longer needed.

    Folders that name a partition, ``year=2020``, are kept in the paths.

    Arguments:
        system: the file system of fsspec that the files are in; None for that of this machine.
    """
    if fcntl is None or int(os.environ.get("LOCAL_WORLD_SIZE", "1")) == 1:
        folder = Path(tempfile.mkdtemp(prefix="stratagp-"))
        leave: Callable[[], None] = partial(shutil.rmtree, folder, True)
        try:
            return _copy_all(files, folder, system), leave
        except BaseException:
            leave()
            raise
    folder = _shared_folder(files, system)
    room = _enter(folder, lambda: _copy_all(files, folder, system))
    return [str(path) for path in _places(files, folder)], partial(_leave, folder, room)


def _shared_folder(files: Sequence[str], system: Any) -> Path:
    """Where all processes of a run on this machine have the copies of these files, as they are now."""
    digest = hashlib.blake2b(digest_size=16)
    for path in files:
        known = _stamp(path) if system is None else system.ukey(path)
        digest.update(repr((os.path.abspath(path), known)).encode())
    name = f"stratagp-{os.environ.get('TORCHELASTIC_RUN_ID', '')}-{digest.hexdigest()}"
    return Path(tempfile.gettempdir(), "".join(sign if sign.isalnum() or sign == "-" else "_" for sign in name))


def _stamp(path: str) -> Any:
    try:
        found = os.stat(path)
    except OSError:
        return None  # which the copy reports
    return found.st_size, found.st_mtime_ns


def _enter(folder: Path, make: Callable[[], Any]) -> int:
    """Let ``make`` fill the folder unless that was done; a lock that is shared with all who use it.

    The door is locked for as long as somebody enters or leaves, the room for as long as it is used.
    """
    with _door(folder):
        if not (folder / _DONE).exists():
            try:
                make()
                (folder / _DONE).touch()
            except BaseException:
                shutil.rmtree(folder, True)
                raise
        room = os.open(folder / _ROOM, os.O_RDWR | os.O_CREAT, 0o600)
        fcntl.flock(room, fcntl.LOCK_SH)
        return room


def _leave(folder: Path, room: int) -> None:
    """Give the lock back; the last one removes the folder."""
    with _door(folder):
        try:
            fcntl.flock(room, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder, True)
        except BlockingIOError:  # others are using it
            pass
        finally:
            os.close(room)


@contextmanager
def _door(folder: Path) -> Iterator[None]:
    """The folder, to be entered or left by one process at a time; it is made if it is not there."""
    while True:
        door = _opened(folder)
        try:
            fcntl.flock(door, fcntl.LOCK_EX)
            if os.fstat(door).st_nlink:
                yield
                return
        finally:
            os.close(door)  # and where somebody has removed the folder while this process waited, again


def _opened(folder: Path) -> int:
    """The file of a folder that processes lock; both are this user's alone."""
    while True:
        folder.mkdir(mode=0o700, exist_ok=True)
        if folder.stat().st_uid != os.getuid():
            raise InputError(f"{folder}, where copies of CSV files would be, belongs to somebody else: set TMPDIR")
        try:
            return os.open(folder / _DOOR, os.O_RDWR | os.O_CREAT, 0o600)
        except FileNotFoundError:  # the last process that used it has just removed it
            continue


def _places(files: Sequence[str], folder: Path) -> list[Path]:
    """Where the copies go, below the folders that name partitions."""
    numbered = [(f"{number:06d}-{Path(path).name}.parquet", Path(path)) for number, path in enumerate(files)]
    return [folder.joinpath(*(part for part in path.parts[:-1] if "=" in part), name) for name, path in numbered]


def _copy_all(files: Sequence[str], folder: Path, system: Any) -> list[str]:
    log.info("CSV files are copied into Parquet, in %s: %d", folder, len(files))
    places = _places(files, folder)
    for path, copy in zip(files, places, strict=True):
        copy.parent.mkdir(parents=True, exist_ok=True)
        _copy_csv(path, str(copy), system)
    return [str(copy) for copy in places]


def _copy_csv(path: str, copy: str, system: Any) -> None:
    """One file; the types of columns are those of its first block, until a later value needs a wider one."""
    pa = importlib.import_module("pyarrow")
    widened = _Widened()
    try:
        while True:
            try:
                _write_copy(path, copy, system, widened)
                return
            except pa.ArrowInvalid as error:
                if not widened.fits(str(error)):
                    raise
    except FileNotFoundError as error:
        raise InputError(f"{path} does not exist") from error
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        if isinstance(error, UnicodeDecodeError) or "UTF8" in str(error):
            raise _not_utf8(path, system) from error
        raise InputError(f"{path} cannot be read as CSV: {widened.named(str(error).splitlines()[0])}") from error


def _write_copy(path: str, copy: str, system: Any, widened: _Widened) -> None:
    csv, parquet = (importlib.import_module(name) for name in ("pyarrow.csv", "pyarrow.parquet"))
    delimiter = "\t" if path.removesuffix(".gz").endswith(".tsv") else ","
    options = (
        csv.ReadOptions(block_size=_BLOCK),
        csv.ParseOptions(delimiter=delimiter, newlines_in_values=True),
        # blanks and "NA" are missing in texts as in numbers
        csv.ConvertOptions(strings_can_be_null=True, column_types=widened.types),
    )
    stream = path if system is None else system.open(path, "rb", compression="infer")
    with csv.open_csv(stream, *options) as reader:
        widened.names = reader.schema.names
        _refuse_delimiter(path, widened.names)
        if "binary" in map(str, reader.schema.types):  # which texts become where they are not UTF-8
            raise _not_utf8(path, system)
        with parquet.ParquetWriter(copy, reader.schema) as writer:
            for batch in reader:
                writer.write_batch(batch, row_group_size=_GROUP_ROWS)


def _not_utf8(path: str, system: Any) -> InputError:
    """What is said of a file in another encoding, with the first line that shows it."""
    here = gzip.open if path.endswith(".gz") else open
    with here(path, "rb") if system is None else system.open(path, "rb", compression="infer") as stream:
        line = next((number for number, text in enumerate(stream, 1) if not _is_utf8(text)), 1)
    return InputError(f"{path} is not UTF-8: line {line} cannot be read: save the file as UTF-8")


def _is_utf8(text: bytes) -> bool:
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True


def _refuse_delimiter(path: str, names: Sequence[str]) -> None:
    """A single column whose name has another delimiter is a table that was not cut into its columns."""
    sign = next((sign for sign in ";\t" if len(names) == 1 and sign in names[0]), None)
    if sign is not None:
        remedy = "name the file .tsv" if sign == "\t" else "write it with commas, or with tabs as .tsv"
        raise InputError(f"{path} has one column, {names[0]!r}, which {sign!r} seems to divide: {remedy}")


class _Widened:
    """Types of columns that are wider than those of the first block of a file.

    Whole numbers become real ones; what was empty at first becomes numbers, or else texts.
    """

    def __init__(self) -> None:
        self.types, self.names, self._empty = dict[str, Any](), list[str](), set[str]()

    def named(self, message: str) -> str:
        """A message of pyarrow with the name of the column that it gives the number of."""
        found = _NUMBERED.match(message)
        if found is None or int(found[1]) >= len(self.names):
            return message
        return f"column {self.names[int(found[1])]!r}: {message[found.end() :]}"

    def fits(self, message: str) -> bool:
        """Take in that a value did not fit the type of its column; whether another may."""
        pa, found = importlib.import_module("pyarrow"), _MISFIT.search(message)
        if found is None or int(found[1]) >= len(self.names):
            return False
        name, kind = self.names[int(found[1])], found[2]
        if kind == "null":
            self._empty.add(name)
        if kind in ("null", "int64"):
            self.types[name] = pa.float64()
        elif kind == "double" and name in self._empty:
            self.types[name] = pa.string()
        else:
            return False
        return True
