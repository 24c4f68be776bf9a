"""A quick start of the commands that ask a model about a few rows: most of their time goes to importing libraries."""

from __future__ import annotations

import gc
import importlib.util
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any


@contextmanager
def quick_start() -> Iterator[None]:
    """Import libraries without a search for garbage, of which modules leave none, and without ``scipy.stats``.

    scikit-learn imports ``scipy.stats``, a quarter of all the time, and predictions ask it nothing. Where torch is
    there already, nothing is left to gain.
    """
    if "torch" in sys.modules:
        yield
        return
    collects = gc.isenabled()
    gc.disable()
    try:
        _postpone("scipy.stats")
        yield
    finally:
        gc.freeze()  # what was imported stays
        if collects:
            gc.enable()


class _Postponed(ModuleType):
    """A module that runs when it is asked for something that it does not have yet; ``inspect`` may look at it."""

    def __getattr__(self, name: str) -> Any:
        self.__class__ = ModuleType  # type: ignore[assignment]
        assert self.__spec__ is not None
        assert self.__spec__.loader is not None
        self.__spec__.loader.exec_module(self)
        return getattr(self, name)


def _postpone(name: str) -> None:
    spec = importlib.util.find_spec(name)
    if name not in sys.modules and spec is not None:
        module = sys.modules[name] = importlib.util.module_from_spec(spec)
        module.__class__ = _Postponed
