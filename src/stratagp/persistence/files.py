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
from stratagp.persistence.config import CONFIG, FORMAT, LARGEST_CONFIG, MARK, checksum, is_model
from stratagp.training.checkpoint import write_whole

_TENSOR_FILE = re.compile(r"model(-\d{1,6})?\.safetensors")
_LEFT = re.compile(rf"\.({re.escape(CONFIG)}|{_TENSOR_FILE.pattern})\.\d+")


def check_target(path: Path, overwrite: bool) -> None:
    """Refuse to write into a folder that holds something, unless that was asked for."""
    if path.exists() and not path.is_dir():
        raise InputError(f"save: {path} is a file: give the name of a folder")
    there = sorted(each.name for each in path.iterdir() if not _is_own(each, _LEFT)) if path.exists() else []
    if there and not overwrite:
        what = "holds a model" if is_model(path) else f"is no model and holds {there[0]}"
        remedy = f"overwrite=True replaces {CONFIG} and the tensors of a model there, and no other file"
        raise InputError(f"save: the folder {path} {what}: give another, or {remedy}")


def _is_own(path: Path, pattern: re.Pattern[str]) -> bool:
    """Whether it is a file, no link, of a name that ``save`` gives."""
    return pattern.fullmatch(path.name) is not None and path.is_file() and not path.is_symlink()


def write_model(path: Path, config: dict[str, Any], tensors: dict[str, Tensor]) -> None:
    """Write a folder; files of a model that was there before are replaced when all is on the disk."""
    path.mkdir(parents=True, exist_ok=True)
    there = list(path.iterdir())
    useless = [_LEFT, _TENSOR_FILE] if is_model(path) else [_LEFT]  # what killed saves have left, and the old tensors
    before = [each for each in there if any(_is_own(each, pattern) for pattern in useless)]
    names = chain(["model.safetensors"], (f"model-{i}.safetensors" for i in count(2)))
    name = next(name for name in names if name not in {each.name for each in there})
    content = save({key: tensor.contiguous() for key, tensor in tensors.items()})
    config["tensors"] = {"file": name, "bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    config = {"format": MARK, "version": FORMAT, **config}
    config["checksum"] = checksum(config)
    text = json.dumps(config, indent=1, ensure_ascii=False, allow_nan=False).encode()
    if len(text) > LARGEST_CONFIG:
        raise InputError(f"save: the objects of this model take more than {LARGEST_CONFIG / 2**20:.0f} MB of text")
    write_whole(path / name, content)
    write_whole(path / CONFIG, text)
    for each in before:
        each.unlink(missing_ok=True)


def read_tensors(path: Path, about: object) -> dict[str, Tensor]:
    """The tensors of the file that the configuration names, which must have the size and checksum it says."""
    known = about if isinstance(about, dict) and about.keys() == {"file", "bytes", "sha256"} else {}
    name = known.get("file")
    if not isinstance(name, str) or not _TENSOR_FILE.fullmatch(name):
        raise ModelFileError(f"{CONFIG} does not say which file has the tensors")
    file = path / name
    if not file.is_file():
        raise ModelFileError(f"{name} is missing")
    if file.stat().st_size != known["bytes"]:
        raise ModelFileError(
            f"{name} has {file.stat().st_size} bytes, but {str(known['bytes'])[:20]} are due: it was cut"
        )
    content = file.read_bytes()
    if hashlib.sha256(content).hexdigest() != known["sha256"]:
        raise ModelFileError(f"{name} was altered or damaged: its checksum is wrong")
    try:
        return load(content)
    except Exception as error:
        raise ModelFileError(f"{name} is no safetensors file that can be read ({error})") from error
