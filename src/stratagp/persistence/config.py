"""What a saved model says of itself in ``config.json``, which is read without torch, so that it is told at once."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from stratagp.errors import ModelFileError

FORMAT = 1
CONFIG = "config.json"
MARK = "stratagp model"
LARGEST_CONFIG = 2**28  # bytes
_FIELDS = {"format", "version", "library", "about", "tensors", "objects", "checksum"}
_HEAD = 1000  # bytes of a configuration that say whose it is
_ABOUT: dict[str, type] = dict.fromkeys(("class", "inference", "calibrated"), str)  # what save writes
_ABOUT |= dict.fromkeys(("columns", "classes"), list) | dict.fromkeys(("arguments", "categories", "scaled"), dict)
_ABOUT |= dict.fromkeys(("features", "bytes"), int)


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
            raise ModelFileError("its description is none")
        about = {**about, "bytes": tensors.get("bytes")}
        for name, value in about.items():
            inside = value.values() if isinstance(value, dict) else [value]
            texts = [text for part in inside if isinstance(part, list) for text in part]
            right = value is None or type(value) is _ABOUT.get(name, type(value))
            if not right or not all(isinstance(text, str) for text in texts):
                raise ModelFileError(f"its description has something else than is due as {name!r}: save the model anew")
        return {**about, "library": library, "format": config["version"]}


def is_model(path: Path) -> bool:
    """Whether the configuration in a folder is one that ``save`` has written, whole or not."""
    file = path / CONFIG
    if not file.is_file():
        return False
    with file.open("rb") as opened:
        return f'"{MARK}"'.encode() in opened.read(_HEAD)


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
    file = path / CONFIG
    if not path.is_dir():
        raise ModelFileError("there is no such folder: give the one that save has made")
    if not file.is_file():
        raise ModelFileError(f"it is no model: it has no {CONFIG}")
    if file.stat().st_size > LARGEST_CONFIG:
        raise ModelFileError(f"{CONFIG} has more than {LARGEST_CONFIG / 2**20:.0f} MB")
    config = json.loads(file.read_bytes())
    if not isinstance(config, dict) or config.get("format") != MARK:
        raise ModelFileError(f"{CONFIG} is not that of a StrataGP model")
    version = config.get("version")
    if type(version) is not int or not 1 <= version <= FORMAT:
        raise ModelFileError(
            f"{CONFIG} is of format version {str(version)[:20]}, but this release reads up to {FORMAT}: update StrataGP"
        )
    if config.keys() != _FIELDS:
        raise ModelFileError(f"{CONFIG} has unknown or missing fields: {sorted(config.keys() ^ _FIELDS)[:5]}")
    if config["checksum"] != checksum(config):
        raise ModelFileError(f"{CONFIG} was altered or damaged: its checksum is wrong")
    return config
