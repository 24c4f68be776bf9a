"""Files of models, altered in many ways, with checksums that are right again."""

import copy
import hashlib
import json
import random
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load, save

from stratagp.persistence.files import checksum
from stratagp.persistence.registry import classes, functions

NUMBERS: list[Any] = [
    0,
    1,
    -1,
    2,
    7,
    65,
    1000,
    10**6,
    10**7,
    10**9,
    2**31,
    2**63 - 1,
    -(2**63),
    10**30,
    0.0,
    -0.5,
    1e-300,
]
NUMBERS += [1e300, 1e16, {"float": "nan"}, {"float": "inf"}, {"int": "9" * 300}, {"int": "x"}]
VALUES: list[Any] = [
    None,
    True,
    False,
    "",
    "x",
    "../../etc/passwd",
    "os.system",
    "__class__",
    "\x00",
    "é" * 50,
    [],
    {},
    [[]],
]
VALUES += [{"ref": 0}, {"ref": 1}, {"ref": -1}, {"ref": 10**9}, {"ref": "0"}, {"list": [1, "a", None]}, {"list": {}}]
VALUES += [{"tuple": []}, {"dict": [["a", 1]]}, {"dict": ["a", 1]}, {"set": [{"list": []}]}]
VALUES += [{"function": "torch.log"}, {"function": "os.system"}, {"class": "os.system"}]
VALUES += [{"named": "stratagp.types.Gaussian"}, {"slice": [0, 10**12, None]}, {"range": [0, 10**15, 1]}]
VALUES += [{"bytes": "!!"}, {"bytes": "aGVsbG8="}, {"dtype": "float64"}, {"dtype": "x"}, {"date": "2020-13-01"}]
VALUES += [{"decimal": "1e999999"}, {"scalar": ["<f8", "x"]}, {"class": "torch.distributions.interval"}]
ENTRIES: list[Any] = [{"method": name, "of": [{"ref": 0}]} for name in ("score", "save", "fit")]
ENTRIES += [{"partial": [{"ref": 0}, {"ref": 1}, {"ref": 2}]}, {"array": [{"ref": 0}, 1, 2]}]
ENTRIES += [{"tensor": "_example", "dtype": "<U999999", "texts": [1]}, {"frame": [{"ref": 0}, 1]}]
ENTRIES += [{"named": "stratagp.types.Gaussian", "values": []}, {"list": [1] * 20}]


STRANGERS: list[Any] = [
    {"function": "antigravity.geohash"},
    {"named": "antigravity.Class", "values": []},
    {"class": "antigravity.Class", "arguments": {}, "state": {}},
]
WAYS = ["rename", "reshape", "retype", "swap", "drop", "add", "fill", "scale", "cut"]


class Files:
    """The two files of a saved model, in memory."""

    def __init__(self, folder: Path) -> None:
        self.config = json.loads((folder / "config.json").read_text())
        self.content = (folder / self.config["tensors"]["file"]).read_bytes()

    def write(self, folder: Path, config: Any, content: bytes, mend: bool = True) -> None:
        """Put them, altered, into a folder."""
        folder.mkdir(exist_ok=True)
        if mend and isinstance(config, dict):
            if isinstance(config.get("tensors"), dict):
                config["tensors"] |= {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
            config["checksum"] = checksum(config)
        (folder / "config.json").write_text(json.dumps(config))
        (folder / self.config["tensors"]["file"]).write_bytes(content)


def places(node: Any, found: list[tuple[Any, Any]] | None = None) -> list[tuple[Any, Any]]:
    """All containers of JSON with one of their keys."""
    found = [] if found is None else found
    items = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, part in items:
        found.append((node, key))
        places(part, found)
    return found


def alter_config(config: Any, chance: random.Random) -> Any:
    """One to three places of the configuration replaced, deleted, swapped, renamed or doubled."""
    config = copy.deepcopy(config)
    for _ in range(chance.choice([1, 1, 1, 2, 3])):
        parent, key = chance.choice(places(config))
        way = chance.choice(["value", "value", "number", "number", "delete", "swap", "rename", "add", "name"])
        if way == "value":
            parent[key] = copy.deepcopy(chance.choice(VALUES))
        elif way == "number":
            parent[key] = copy.deepcopy(chance.choice(NUMBERS))
        elif way == "delete":
            del parent[key]
        elif way == "swap":
            other, place = chance.choice(places(config))
            parent[key], other[place] = copy.deepcopy(other[place]), copy.deepcopy(parent[key])
        elif way == "rename" and isinstance(parent, dict):
            parent[chance.choice(["predict", "__class__", "__dict__", "x", "forward", "kernel", "training"])] = (
                parent.pop(key)
            )
        elif way == "add" and isinstance(parent, list):
            parent.insert(chance.randrange(len(parent) + 1), copy.deepcopy(chance.choice(VALUES)))
        elif way == "name" and isinstance(parent[key], str):
            parent[key] = chance.choice(list(classes()) + list(functions()))
    return config


def alter_test(config: Any, chance: random.Random) -> Any:
    """The stored answers, the pair that they are a part of, or another entry replaced as a whole."""
    config = copy.deepcopy(config)
    table = config["objects"]
    place = chance.choice([len(table) - 1, len(table) - 2, chance.randrange(len(table))])
    table[place] = copy.deepcopy(chance.choice([*VALUES, *ENTRIES, *STRANGERS]))
    return config


def alter_numbers(config: Any, chance: random.Random) -> Any:
    """One number of the objects replaced, which is what decides how much work a model makes."""
    config = copy.deepcopy(config)
    known = [(parent, key) for parent, key in places(config["objects"]) if type(parent[key]) in (int, float)]
    parent, key = chance.choice([place for place in known if place[1] != "ref"])
    parent[key] = copy.deepcopy(chance.choice(NUMBERS))
    return config


def alter_bytes(content: bytes, chance: random.Random) -> bytes:
    """Bytes flipped, cut, put in or doubled."""
    data = bytearray(content)
    for _ in range(chance.choice([1, 1, 2, 8])):
        at = chance.randrange(len(data))
        way = chance.choice(["flip", "flip", "cut", "insert", "header", "grow"])
        if way == "flip":
            data[at] ^= 1 << chance.randrange(8)
        elif way == "header":
            data[chance.randrange(min(8, len(data)))] = chance.randrange(256)
        elif way == "cut":
            del data[at:]
        elif way == "insert":
            data[at:at] = bytes(chance.randrange(256) for _ in range(chance.randrange(1, 9)))
        else:
            data += data[at:]
        if not data:
            break
    return bytes(data)


def alter_tensors(content: bytes, chance: random.Random) -> bytes:
    """Tensors renamed, reshaped, retyped, swapped, removed, added or filled with other numbers."""
    tensors = {name: tensor.clone() for name, tensor in load(content).items()}
    for _ in range(chance.choice([1, 1, 2])):
        name, other = (chance.choice(list(tensors)) for _ in range(2))
        tensor, way = (
            tensors[name],
            chance.choice(WAYS),
        )
        if way == "rename":
            tensors[chance.choice([f"{name}x", "__metadata", ""])] = tensors.pop(name)
        elif way == "reshape":
            tensors[name] = tensor.reshape(chance.choice([(-1,), (1, -1), (-1, 1), (1, 1, -1)])).contiguous()
        elif way == "retype":
            tensors[name] = tensor.to(
                chance.choice([torch.float32, torch.float16, torch.int64, torch.bool, torch.uint8])
            )
        elif way == "swap":
            tensors[name], tensors[other] = tensors[other].clone(), tensor.clone()
        elif way == "drop":
            del tensors[name]
        elif way == "add":
            tensors["another"] = torch.ones(3)
        elif way == "fill":
            value = chance.choice([0.0, float("nan"), float("inf"), -1.0, 1e30])
            tensors[name] = (
                torch.full_like(tensor, 1 if tensor.dtype == torch.bool else 0)
                if not (tensor.is_floating_point())
                else torch.full_like(tensor, value)
            )
        elif way == "scale" and tensor.is_floating_point():
            tensors[name] = tensor * chance.choice([-1, 1.5, 1e10])
        elif way == "cut" and tensor.dim():
            tensors[name] = tensor[: len(tensor) // 2].clone()
        if not tensors:
            break
    return save(tensors)
