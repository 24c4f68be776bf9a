"""Copies of CSV files in Parquet, made once for all processes of a machine.

CSV files have no parts that could be found without reading them. Where ``torchrun`` has started several processes, all
that open the same files share one folder of copies: the first to lock it makes them, the others wait for the lock. A
process that dies loses its locks, so that nobody waits for it; where the copies are not done, the next one makes them,
and meets whatever is wrong with the files itself. The last process that leaves the folder removes it.
"""

from __future__ import annotations

import hashlib
import importlib
import io
import os
import re
import shutil
import stat
import tempfile
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

from stratagp.data.target_checks import is_number
from stratagp.errors import InputError
from stratagp.training.progress import log

try:
    import fcntl
except ImportError:  # a system without such locks, where each process has copies of its own
    fcntl = None  # type: ignore[assignment]

_BLOCK = 8 << 20  # bytes that are read at once
_GROUP_ROWS = 1 << 16
_MISFIT = re.compile(r"In CSV column #(\d+): (?:Row #\d+: )?CSV conversion error to (\w+): invalid value '(.*)'", re.S)
_NUMBERED = re.compile(r"In CSV column #(\d+): ")
_DOOR, _ROOM, _DONE = "door", "room", "done"


def copy_once(files: Sequence[str], system: Any, targets: Sequence[str] = ()) -> tuple[list[str], Callable[[], None]]:
    """Paths of copies of CSV files, and what is to be called when they are no longer needed.

    Arguments:
        system: the file system of fsspec that the files are in; None for that of this machine.
        targets: columns whose whole numbers stay whole unless one of them is not.
    """
    if fcntl is None or int(os.environ.get("LOCAL_WORLD_SIZE", "1")) == 1:
        folder = Path(tempfile.mkdtemp(prefix="stratagp-"))
        leave: Callable[[], None] = partial(shutil.rmtree, folder, True)
        try:
            return _copy_all(files, folder, system, targets), leave
        except BaseException:
            leave()
            raise
    folder = _shared_folder(files, system, targets)
    room = _enter(folder, lambda: _copy_all(files, folder, system, targets))
    return [str(path) for path in _places(files, folder)], partial(_leave, folder, room)


def _shared_folder(files: Sequence[str], system: Any, targets: Sequence[str]) -> Path:
    """Where all processes of a run on this machine have the copies of these files, as they are now."""
    digest = hashlib.blake2b(repr(sorted(targets)).encode(), digest_size=16)
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
                _remove(folder)
                raise
        room = os.open(folder / _ROOM, os.O_RDWR | os.O_CREAT, 0o600)
        fcntl.flock(room, fcntl.LOCK_SH)
        return room


def _leave(folder: Path, room: int) -> None:
    """Give the lock back; the last one removes the folder."""
    with _door(folder):
        try:
            fcntl.flock(room, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _remove(folder)
        except BlockingIOError:  # others are using it
            pass
        finally:
            os.close(room)


def _remove(folder: Path) -> None:
    """Take the folder away at once, with its door held: whoever comes then finds none, not what is left of it."""
    aside = folder.with_name(f"{folder.name}-left-{uuid.uuid4().hex}")
    with suppress(FileNotFoundError):  # somebody cleans up the folder for temporary files
        folder.rename(aside)
    shutil.rmtree(aside, True)


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
        try:
            folder.mkdir(mode=0o700, exist_ok=True)
            if folder.stat().st_uid != os.getuid():
                raise InputError(f"{folder}, where copies of CSV files would be, belongs to somebody else: set TMPDIR")
            return os.open(folder / _DOOR, os.O_RDWR | os.O_CREAT, 0o600)
        except (FileNotFoundError, FileExistsError):  # the last process that used it has just removed it
            _refuse_no_folder(folder)


def _refuse_no_folder(path: Path) -> None:
    """Refuse a path that something else has."""
    with suppress(FileNotFoundError):
        if not stat.S_ISDIR(path.lstat().st_mode):
            raise InputError(f"{path}, where copies of CSV files would be, is no folder: set TMPDIR, or remove it")
    path.parent.stat()  # which says so where there is no folder for temporary files at all


def _places(files: Sequence[str], folder: Path) -> list[Path]:
    """Where the copies go."""
    return [folder / f"{number:06d}-{Path(path).name}.parquet" for number, path in enumerate(files)]


def _copy_all(files: Sequence[str], folder: Path, system: Any, targets: Sequence[str]) -> list[str]:
    log.info("CSV files are copied into Parquet, in %s: %d", folder, len(files))
    places = [str(place) for place in _places(files, folder)]
    for path, copy in zip(files, places, strict=True):
        _copy_csv(path, copy, system, targets)
    return places


def _copy_csv(path: str, copy: str, system: Any, targets: Sequence[str]) -> None:
    """One file; the types of columns are those of its first block, until a later value needs a wider one."""
    pa = importlib.import_module("pyarrow")
    widened = _Widened(targets)
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
    delimiter = "\t" if path.lower().removesuffix(".gz").endswith(".tsv") else ","
    options = (
        csv.ReadOptions(block_size=_BLOCK),
        csv.ParseOptions(delimiter=delimiter, newlines_in_values=True),
        # blanks and "NA" are missing in texts as in numbers
        csv.ConvertOptions(strings_can_be_null=True, column_types=widened.types),
    )
    with _bytes(path, system) as stream, csv.open_csv(stream, *options) as reader:
        widened.names, widened.kinds = reader.schema.names, list(map(str, reader.schema.types))
        _refuse_delimiter(path, widened.names)
        if "binary" in widened.kinds:  # which texts become where they are not UTF-8
            raise _not_utf8(path, system)
        with parquet.ParquetWriter(copy, reader.schema) as writer:
            for batch in reader:
                writer.write_batch(batch, row_group_size=_GROUP_ROWS)


def _bytes(path: str, system: Any) -> Any:
    """What a file holds, unpacked."""
    if system is not None:
        return system.open(path, "rb", compression="infer")
    packed = "gzip" if path.lower().endswith(".gz") else None
    return io.BufferedReader(importlib.import_module("pyarrow").input_stream(path, compression=packed))


def _not_utf8(path: str, system: Any) -> InputError:
    """What is said of a file in another encoding, with the first line that shows it."""
    with _bytes(path, system) as stream:
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

    Whole numbers become real ones; what was empty at first becomes numbers, or else texts. The file is read again for
    each column that this happens to; where it happens to a second one, all others like it but the targets become wider
    with it.

    Arguments:
        targets: the columns to predict.
    """

    def __init__(self, targets: Sequence[str]) -> None:
        self.types, self._empty, self._met = dict[str, Any](), set[str](), set[str]()
        self.names, self.kinds, self._targets = list[str](), list[str](), set(targets)  # as the first block has them

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
        name, kind, value = self.names[int(found[1])], found[2], found[3]
        if kind in ("null", "int64"):
            alike = [each for each, own in zip(self.names, self.kinds, strict=True) if own == kind]
            chosen = {name} | (set(alike) - self._targets if kind in self._met else set())
            self._met.add(kind)
            self._empty |= chosen if kind == "null" else set()
            self.types |= dict.fromkeys(chosen, pa.float64())
        if name in self._empty and (kind == "double" or not is_number(value)):
            self.types[name] = pa.string()
        elif kind not in ("null", "int64"):
            return False
        return True
