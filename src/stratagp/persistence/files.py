"""The folder of a model: ``config.json`` and a file of tensors, written whole and read with suspicion, without torch.

``config.json`` has checksums of the tensor file and of its own content, which detect accidental damage. Whoever alters
a file can correct them, so nothing else relies on them. It is written last and names the tensor file: while a model is
replaced, readers find the old one or the new one.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain, count
from pathlib import Path
from typing import Any

from stratagp.errors import InputError, ModelFileError
from stratagp.whole_files import write_whole

FORMAT = 1
_CONFIG = "config.json"
_MARK = "stratagp model"
_LARGEST = 2**28  # bytes
_FIELDS = {"format", "version", "library", "about", "tensors", "objects", "checksum"}
_HEAD = 1000  # bytes of a configuration that say whose it is
_ABOUT: dict[str, type] = dict.fromkeys(("class", "inference", "calibrated"), str)  # what save writes
_ABOUT |= dict.fromkeys(("columns", "classes"), list) | dict.fromkeys(("arguments", "categories", "scaled"), dict)
_ABOUT |= dict.fromkeys(("features", "bytes"), int)
_TENSORS = re.compile(r"model(-\d{1,6})?\.safetensors")
_LEFT = re.compile(rf"\.({re.escape(_CONFIG)}|{_TENSORS.pattern})\.\d+")


def describe(path: str | os.PathLike[str]) -> dict[str, Any]:
    """What a saved model is, from ``config.json`` alone: class, arguments, columns, versions, size.

    The values are plain texts, numbers, lists and dictionaries, as whoever wrote the file has put them there.

    >>> import tempfile
    >>> from stratagp import GPRegressor
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     GPRegressor().fit([[0.0], [1.0], [2.0]], [0.0, 1.0, 0.0]).save(f"{folder}/model")
    ...     describe(f"{folder}/model")["class"]
    'GPRegressor'
    """
    with reading(Path(path)):
        config = read_config(Path(path))
        about, library, tensors = config["about"], config["library"], config["tensors"]
        if not all(isinstance(part, dict) for part in (about, library, tensors)):
            raise ModelFileError("it has no description")
        about = {**about, "bytes": tensors.get("bytes")}
        for name, value in about.items():
            inside = value.values() if isinstance(value, dict) else [value]
            texts = [text for part in inside if isinstance(part, list) for text in part]
            right = value is None or type(value) is _ABOUT.get(name, type(value))
            if not right or not all(isinstance(text, str) for text in texts):
                raise ModelFileError(f"its description has an unexpected value for {name!r}: save the model again")
        return {**about, "library": library, "format": config["version"]}


def is_model(path: Path) -> bool:
    """Whether ``save`` wrote the configuration in a folder, even if only a part of it."""
    file = path / _CONFIG
    if not file.is_file():
        return False
    with file.open("rb") as opened:
        return f'"{_MARK}"'.encode() in opened.read(_HEAD)


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
    file = path / _CONFIG
    if not path.is_dir():
        raise ModelFileError("there is no such folder: give the one that save has made")
    if not file.is_file():
        raise ModelFileError(f"it is not a model: it has no {_CONFIG}")
    if file.stat().st_size > _LARGEST:
        raise ModelFileError(f"{_CONFIG} has more than {_LARGEST / 2**20:.0f} MB")
    config = json.loads(file.read_bytes())
    if not isinstance(config, dict) or config.get("format") != _MARK:
        raise ModelFileError(f"{_CONFIG} does not belong to a StrataGP model")
    version = config.get("version")
    if type(version) is not int or not 1 <= version <= FORMAT:
        known = f"this release reads up to {FORMAT}: update StrataGP"
        raise ModelFileError(f"{_CONFIG} is of format version {str(version)[:20]}, but {known}")
    if config.keys() != _FIELDS:
        raise ModelFileError(f"{_CONFIG} has unknown or missing fields: {sorted(config.keys() ^ _FIELDS)[:5]}")
    if config["checksum"] != checksum(config):
        raise ModelFileError(f"{_CONFIG} was altered or damaged: its checksum is wrong")
    return config


def check_target(path: Path, overwrite: bool) -> None:
    """Refuse to write into a folder that holds something, unless that was asked for."""
    if path.exists() and not path.is_dir():
        raise InputError(f"save: {path} is a file: give the name of a folder")
    there = sorted(each.name for each in path.iterdir() if not _is_own(each, _LEFT)) if path.exists() else []
    if there and not overwrite:
        what = "holds a model" if is_model(path) else f"is not a model and holds {there[0]}"
        remedy = f"overwrite=True replaces {_CONFIG} and the tensors of a model there, and no other file"
        raise InputError(f"save: the folder {path} {what}: give another, or {remedy}")


def _is_own(path: Path, pattern: re.Pattern[str]) -> bool:
    """Whether it is a file, no link, of a name that ``save`` gives."""
    return pattern.fullmatch(path.name) is not None and path.is_file() and not path.is_symlink()


def write_model(path: Path, config: dict[str, Any], content: bytes) -> None:
    """Write a folder; files of a model that was there before are replaced when all is on the disk."""
    is_new = not path.exists()
    path.mkdir(parents=True, exist_ok=True)
    there = list(path.iterdir())
    useless = [_LEFT, _TENSORS] if is_model(path) else [_LEFT]  # what killed saves have left, and the old tensors
    before = [each for each in there if any(_is_own(each, pattern) for pattern in useless)]
    names = chain(["model.safetensors"], (f"model-{i}.safetensors" for i in count(2)))
    name = next(name for name in names if name not in {each.name for each in there})
    config["tensors"] = {"file": name, "bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    config = {"format": _MARK, "version": FORMAT, **config}
    config["checksum"] = checksum(config)
    text = json.dumps(config, indent=1, ensure_ascii=False, allow_nan=False).encode()
    if len(text) > _LARGEST:
        raise InputError(f"save: the objects of this model take more than {_LARGEST / 2**20:.0f} MB of text")
    try:
        write_whole(path / name, content)
        write_whole(path / _CONFIG, text)
    except OSError:
        if is_new and not (path / _CONFIG).exists():  # on a full disk nothing is left of a model
            shutil.rmtree(path)
        raise
    for each in before:
        each.unlink(missing_ok=True)


def read_tensors(path: Path, about: object) -> bytes:
    """The content of the tensor file that the configuration names, which must have the size and checksum it says."""
    known = about if isinstance(about, dict) and about.keys() == {"file", "bytes", "sha256"} else {}
    name = known.get("file")
    if not isinstance(name, str) or not _TENSORS.fullmatch(name):
        raise ModelFileError(f"{_CONFIG} does not say which file has the tensors")
    file = path / name
    if not file.is_file():
        raise ModelFileError(f"{name} is missing")
    if file.stat().st_size != known["bytes"]:
        raise ModelFileError(
            f"{name} has {file.stat().st_size} bytes instead of {str(known['bytes'])[:20]}: it was cut"
        )
    content = file.read_bytes()
    if hashlib.sha256(content).hexdigest() != known["sha256"]:
        raise ModelFileError(f"{name} was altered or damaged: its checksum is wrong")
    return content
