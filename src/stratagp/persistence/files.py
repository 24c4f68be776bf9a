"""The folder of a model: ``config.json`` and ``model.safetensors``, written whole and read with suspicion.

``config.json`` has the checksum of the tensor file and of its own content, which find accidental damage. A stranger can
make them right, so that nothing else relies on them. It is written last, and names the tensor file: while a model is
replaced, whoever looks finds the old one or the new one.
"""

from __future__ import annotations

import hashlib
import json
import re
from itertools import chain, count
from pathlib import Path
from typing import Any

from safetensors.torch import load, save
from torch import Tensor

from stratagp.errors import InputError, ModelFileError
from stratagp.persistence.description import CONFIG, FORMAT, LARGEST_CONFIG, MARK, checksum, is_model
from stratagp.training.checkpoint import write_whole

_TENSOR_FILE = re.compile(r"model(-\d{1,6})?\.safetensors")
_LEFT = re.compile(rf"\.({re.escape(CONFIG)}|{_TENSOR_FILE.pattern})\.\d+")


def check_target(path: Path, overwrite: bool) -> None:
    """Refuse to write into a folder that holds something, unless that was asked for."""
    if path.exists() and not path.is_dir():
        raise InputError(f"save: {path} is a file: give the name of a folder")
    there = [] if not path.exists() else [each.name for each in path.iterdir() if not _is_left(each)]
    if there and not overwrite:
        what = "holds a model" if is_model(path) else f"is no model and holds {sorted(there)[0]}"
        remedy = f"overwrite=True replaces {CONFIG} and the tensors of a model there, and no other file"
        raise InputError(f"save: the folder {path} {what}: give another, or {remedy}")


def _is_left(path: Path) -> bool:
    """Whether a save that was killed has left this file, which has the name that ``write_whole`` gives."""
    return _LEFT.fullmatch(path.name) is not None and _is_plain(path)


def _is_plain(path: Path) -> bool:
    return path.is_file() and not path.is_symlink()


def _replaced(path: Path) -> list[Path]:
    """What a new model makes useless: what killed saves have left, and the tensors of a model that is there."""
    known = is_model(path)
    own = (each for each in path.iterdir() if known and _TENSOR_FILE.fullmatch(each.name) and _is_plain(each))
    return [*own, *(each for each in path.iterdir() if _is_left(each))]


def write_model(path: Path, config: dict[str, Any], tensors: dict[str, Tensor]) -> None:
    """Write a folder; files of a model that was there before are replaced when all is on the disk."""
    path.mkdir(parents=True, exist_ok=True)
    before = _replaced(path)
    name = _free_name({each.name for each in path.iterdir()})
    content = save({key: tensor.contiguous() for key, tensor in tensors.items()})
    config["tensors"] = {"file": name, "bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    config = {"format": MARK, "version": FORMAT, **config}
    config["checksum"] = checksum(config)
    text = json.dumps(config, indent=1, ensure_ascii=False, allow_nan=False)
    if len(text.encode()) > LARGEST_CONFIG:
        raise InputError(f"save: the objects of this model take more than {LARGEST_CONFIG / 2**20:.0f} MB of text")
    write_whole(path / name, content)
    write_whole(path / CONFIG, text.encode())
    for each in before:
        each.unlink(missing_ok=True)


def _free_name(taken: set[str]) -> str:
    others = (f"model-{i}.safetensors" for i in count(2))
    return next(name for name in chain(["model.safetensors"], others) if name not in taken)


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
