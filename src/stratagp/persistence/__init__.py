"""Model files: fitted estimators as folders of JSON and tensors, without pickle; a stranger's file cannot run code."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from stratagp.persistence.config import describe as describe
    from stratagp.persistence.model_file import load as load
    from stratagp.persistence.model_file import save as save

_HOMES = {"describe": "config", "load": "model_file", "save": "model_file"}


def __getattr__(name: str) -> Any:
    """Load a part when it is asked for: a description needs no torch."""
    if name in _HOMES:
        return getattr(import_module(f"stratagp.persistence.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'stratagp.persistence' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
