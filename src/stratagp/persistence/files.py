"""The folder of a model: ``config.json`` and ``model.safetensors``, written whole and read with suspicion.

``config.json`` has the checksum of the tensor file and of its own content, which find accidental damage. A stranger can
make them right, so that nothing else relies on them. It is written last, and names the tensor file: while a model is
replaced, whoever looks finds the old one or the new one.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain, count
from pathlib import Path
from typing import Any

from safetensors.torch import load, save
from torch import Tensor

from stratagp.errors import InputError, ModelFileError
from stratagp.training.checkpoint import write_whole

FORMAT = 1
CONFIG = "config.json"
_MARK = "stratagp model"
_FIELDS = ("format", "version", "library", "about", "tensors", "objects", "test", "checksum")
_TENSOR_FILE = re.compile(r"model(-\d{1,6})?\.safetensors")
_LEFT = re.compile(rf"\.({re.escape(CONFIG)}|{_TENSOR_FILE.pattern})\.\d+")
_HEAD = 1000  # bytes of a configuration that say whose it is
_LARGEST_CONFIG = 2**28  # bytes


def check_target(path: Path, overwrite: bool) -> None:
    """Refuse to write into a folder that holds something, unless that was asked for."""
    if path.exists() and not path.is_dir():
        raise InputError(f"save: {path} is a file: give the name of a folder")
    there = [] if not path.exists() else [each.name for each in path.iterdir() if not _is_left(each)]
    if there and not overwrite:
        what = "holds a model" if _is_model(path) else f"is no model and holds {sorted(there)[0]}"
        remedy = f"overwrite=True replaces {CONFIG} and the tensors of a model there, and no other file"
        raise InputError(f"save: the folder {path} {what}: give another, or {remedy}")


def _is_left(path: Path) -> bool:
    """Whether a save that was killed has left this file, which has the name that ``write_whole`` gives."""
    return _LEFT.fullmatch(path.name) is not None and _is_plain(path)


def _is_plain(path: Path) -> bool:
    return path.is_file() and not path.is_symlink()


def _is_model(path: Path) -> bool:
    """Whether the configuration in a folder is one that ``save`` has written, whole or not."""
    file = path / CONFIG
    if not file.is_file():
        return False
    with file.open("rb") as opened:
        return f'"{_MARK}"'.encode() in opened.read(_HEAD)


def _replaced(path: Path) -> list[Path]:
    """What a new model makes useless: what killed saves have left, and the tensors of a model that is there."""
    known = _is_model(path)
    own = (each for each in path.iterdir() if known and _TENSOR_FILE.fullmatch(each.name) and _is_plain(each))
    return [*own, *(each for each in path.iterdir() if _is_left(each))]


def write_model(path: Path, config: dict[str, Any], tensors: dict[str, Tensor]) -> None:
    """Write a folder; files of a model that was there before are replaced when all is on the disk."""
    path.mkdir(parents=True, exist_ok=True)
    before = _replaced(path)
    name = _free_name({each.name for each in path.iterdir()})
    content = save({key: tensor.contiguous() for key, tensor in tensors.items()})
    config["tensors"] = {"file": name, "bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    config = {"format": _MARK, "version": FORMAT, **config}
    config["checksum"] = checksum(config)
    text = json.dumps(config, indent=1, ensure_ascii=False, allow_nan=False)
    if len(text.encode()) > _LARGEST_CONFIG:
        raise InputError(f"save: the objects of this model take more than {_LARGEST_CONFIG / 2**20:.0f} MB of text")
    write_whole(path / name, content)
    write_whole(path / CONFIG, text.encode())
    for each in before:
        each.unlink(missing_ok=True)


def _free_name(taken: set[str]) -> str:
    others = (f"model-{i}.safetensors" for i in count(2))
    return next(name for name in chain(["model.safetensors"], others) if name not in taken)


def checksum(config: dict[str, Any]) -> str:
    """SHA-256 of the content of a configuration, however it is laid out."""
    rest = {key: value for key, value in config.items() if key != "checksum"}
    return hashlib.sha256(json.dumps(rest, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Whatever goes wrong becomes a :class:`ModelFileError` that names the file."""
    try:
        yield
    except ModelFileError as error:
        raise ModelFileError(f"{path}: {error}") from error
    except OSError as error:
        raise ModelFileError(f"{path} cannot be read: {error.strerror or error}") from error
    except Exception as error:  # also RecursionError and MemoryError
        raise ModelFileError(f"{path} is damaged ({type(error).__name__}: {str(error)[:200]})") from error


def read_config(path: Path) -> dict[str, Any]:
    """The content of ``config.json``, of a format that is known, with the right checksum."""
    if not path.is_dir():
        raise ModelFileError("there is no such folder: give the one that save has made")
    file = path / CONFIG
    if not file.is_file():
        raise ModelFileError(f"it is no model: it has no {CONFIG}")
    if file.stat().st_size > _LARGEST_CONFIG:
        raise ModelFileError(f"{CONFIG} has more than {_LARGEST_CONFIG / 2**20:.0f} MB")
    config = json.loads(file.read_bytes(), parse_constant=_refuse_constant, object_pairs_hook=_once)
    if not isinstance(config, dict) or config.get("format") != _MARK:
        raise ModelFileError(f"{CONFIG} is not that of a StrataGP model")
    version = config.get("version")
    if type(version) is not int or not 1 <= version <= FORMAT:
        raise ModelFileError(
            f"{CONFIG} is of format version {str(version)[:20]}, but this release reads up to {FORMAT}: update StrataGP"
        )
    if config.keys() != set(_FIELDS):
        raise ModelFileError(f"{CONFIG} has unknown or missing fields: {sorted(config.keys() ^ set(_FIELDS))[:5]}")
    if config["checksum"] != checksum(config):
        raise ModelFileError(f"{CONFIG} was altered or damaged: its checksum is wrong")
    return config


def read_tensors(path: Path, about: Any) -> dict[str, Tensor]:
    """The tensors of the file that the configuration names, which must have the size and checksum it says."""
    if not isinstance(about, dict) or about.keys() != {"file", "bytes", "sha256"}:
        raise ModelFileError(f"{CONFIG} does not say which file has the tensors")
    name = about["file"]
    if not isinstance(name, str) or not _TENSOR_FILE.fullmatch(name):
        raise ModelFileError(f"{CONFIG} names a tensor file that is none of a model")
    file = path / name
    if not file.is_file():
        raise ModelFileError(f"{name} is missing")
    if file.stat().st_size != about["bytes"]:
        raise ModelFileError(
            f"{name} has {file.stat().st_size} bytes, but {str(about['bytes'])[:20]} are due: it was cut"
        )
    content = file.read_bytes()
    if hashlib.sha256(content).hexdigest() != about["sha256"]:
        raise ModelFileError(f"{name} was altered or damaged: its checksum is wrong")
    try:
        return load(content)
    except Exception as error:
        raise ModelFileError(f"{name} is no safetensors file that can be read ({error})") from error


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ModelFileError(f"{CONFIG} has a field twice")
    return found


def _refuse_constant(name: str) -> Any:
    raise ModelFileError(f"{CONFIG} has {name}, which is no JSON")
