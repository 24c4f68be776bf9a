"""Parquet copies of CSV files, made once for all processes on a machine.

A CSV file cannot be divided into parts without reading it. If ``torchrun`` has started several processes, all that open
the same files share one folder of copies: the first to lock it makes them, the others wait for the lock. A process that
dies loses its locks, so nobody waits for it; if the copies are incomplete, the next process makes them and meets any
error in the files itself. The last process to leave the folder removes it.
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
except ImportError:  # no such locks on this system: each process makes its own copies
    fcntl = None  # type: ignore[assignment]

_BLOCK = 8 << 20  # bytes read at once
_GROUP_ROWS = 1 << 16
_MISFIT = re.compile(r"In CSV column #(\d+): (?:Row #\d+: )?CSV conversion error to (\w+): invalid value '(.*)'", re.S)
_NUMBERED = re.compile(r"In CSV column #(\d+): ")
_DOOR, _ROOM, _DONE = "door", "room", "done"


def copy_once(files: Sequence[str], system: Any, targets: Sequence[str] = ()) -> tuple[list[str], Callable[[], None]]:
    """The paths of copies of CSV files, and a function to call when you no longer need them.

    Arguments:
        system: the fsspec file system of the files; None for this machine's.
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
    """The folder in which all processes of a run on this machine keep the copies of these files as they are now."""
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
        return None  # the copy reports the error
    return found.st_size, found.st_mtime_ns


def _enter(folder: Path, make: Callable[[], Any]) -> int:
    """Let ``make`` fill the folder unless it is full already; returns a lock that all users of the folder share.

    The door is locked while a process enters or leaves, the room while any process uses it.
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
    """Release the lock; the last process removes the folder."""
    with _door(folder):
        try:
            fcntl.flock(room, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _remove(folder)
        except BlockingIOError:  # other processes are using it
            pass
        finally:
            os.close(room)


def _remove(folder: Path) -> None:
    """Remove the folder in one step while the door is held, so that a newcomer never finds half of it."""
    aside = folder.with_name(f"{folder.name}-left-{uuid.uuid4().hex}")
    with suppress(FileNotFoundError):  # something cleaned up the temporary folder
        folder.rename(aside)
    shutil.rmtree(aside, True)


@contextmanager
def _door(folder: Path) -> Iterator[None]:
    """Hold the folder's door, so that one process at a time enters or leaves; creates the folder if needed."""
    while True:
        door = _opened(folder)
        try:
            fcntl.flock(door, fcntl.LOCK_EX)
            if os.fstat(door).st_nlink:
                yield
                return
        finally:
            os.close(door)  # try again if the folder was removed while this process waited


def _opened(folder: Path) -> int:
    """The lock file of a folder; only this user may own and open both."""
    while True:
        try:
            folder.mkdir(mode=0o700, exist_ok=True)
            if folder.stat().st_uid != os.getuid():
                raise InputError(f"copies of CSV files cannot go to {folder}, which another user owns: set TMPDIR")
            return os.open(folder / _DOOR, os.O_RDWR | os.O_CREAT, 0o600)
        except (FileNotFoundError, FileExistsError):  # its last user has just removed it
            _refuse_no_folder(folder)


def _refuse_no_folder(path: Path) -> None:
    """Refuse a path that is taken by something other than a folder."""
    with suppress(FileNotFoundError):
        if not stat.S_ISDIR(path.lstat().st_mode):
            raise InputError(f"copies of CSV files cannot go to {path}, which is not a folder: remove it or set TMPDIR")
    path.parent.stat()  # raises if there is no temporary folder at all


def _places(files: Sequence[str], folder: Path) -> list[Path]:
    """The paths of the copies."""
    return [folder / f"{number:06d}-{Path(path).name}.parquet" for number, path in enumerate(files)]


def _copy_all(files: Sequence[str], folder: Path, system: Any, targets: Sequence[str]) -> list[str]:
    log.info("copying CSV files to Parquet in %s: %d", folder, len(files))
    places = [str(place) for place in _places(files, folder)]
    for path, copy in zip(files, places, strict=True):
        _copy_csv(path, copy, system, targets)
    return places


def _copy_csv(path: str, copy: str, system: Any, targets: Sequence[str]) -> None:
    """Copy one file; column types come from its first block and widen if a later value needs it."""
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
        # blanks and "NA" are missing values in columns of text as well as numbers
        csv.ConvertOptions(strings_can_be_null=True, column_types=widened.types),
    )
    with _bytes(path, system) as stream, csv.open_csv(stream, *options) as reader:
        widened.names, widened.kinds = reader.schema.names, list(map(str, reader.schema.types))
        _refuse_delimiter(path, widened.names)
        if "binary" in widened.kinds:  # pyarrow's type for text that is not UTF-8
            raise _not_utf8(path, system)
        with parquet.ParquetWriter(copy, reader.schema) as writer:
            for batch in reader:
                writer.write_batch(batch, row_group_size=_GROUP_ROWS)


def _bytes(path: str, system: Any) -> Any:
    """The decompressed bytes of a file."""
    if system is not None:
        return system.open(path, "rb", compression="infer")
    packed = "gzip" if path.lower().endswith(".gz") else None
    return io.BufferedReader(importlib.import_module("pyarrow").input_stream(path, compression=packed))


def _not_utf8(path: str, system: Any) -> InputError:
    """The error for a file in another encoding, with the first line that shows it."""
    with _bytes(path, system) as stream:
        line = next((number for number, text in enumerate(stream, 1) if not _is_utf8(text)), 1)
    return InputError(f"{path} is not UTF-8 (line {line} cannot be decoded): save the file as UTF-8")


def _is_utf8(text: bytes) -> bool:
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True


def _refuse_delimiter(path: str, names: Sequence[str]) -> None:
    """Refuse a single column with another delimiter in its name: the table was not split into columns."""
    sign = next((sign for sign in ";\t" if len(names) == 1 and sign in names[0]), None)
    if sign is not None:
        remedy = "name the file .tsv" if sign == "\t" else "separate values by commas, or by tabs in a .tsv file"
        raise InputError(f"{path} has a single column {names[0]!r}; its delimiter seems to be {sign!r}: {remedy}")


class _Widened:
    """Column types that are wider than those of the first block of a file.

    Whole numbers become real numbers; columns that were empty at first become numbers, or else text. The file is read
    again for each column that widens; when a second one does, all other columns of its kind except the targets widen
    with it.

    Arguments:
        targets: the columns to predict.
    """

    def __init__(self, targets: Sequence[str]) -> None:
        self.types, self._empty, self._met = dict[str, Any](), set[str](), set[str]()
        self.names, self.kinds, self._targets = list[str](), list[str](), set(targets)  # as in the first block

    def named(self, message: str) -> str:
        """A pyarrow message with the column's name instead of its number."""
        found = _NUMBERED.match(message)
        if found is None or int(found[1]) >= len(self.names):
            return message
        return f"column {self.names[int(found[1])]!r}: {message[found.end() :]}"

    def fits(self, message: str) -> bool:
        """Widen a column after a value did not fit its type; returns whether it could."""
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
