"""Every public class and function shows, in its docstring, an example that the tests run."""

import importlib
import inspect
import pkgutil

import stratagp


def public() -> dict[str, object]:
    """Classes and functions that users import, by the place of their definition."""
    names = [info.name for info in pkgutil.iter_modules(stratagp.__path__) if not info.name.startswith("_")]
    found = {}
    for module in [stratagp, *(importlib.import_module(f"stratagp.{name}") for name in names)]:
        for name in getattr(module, "__all__", None) or [name for name in vars(module) if not name.startswith("_")]:
            value = getattr(module, name)
            if (inspect.isclass(value) or inspect.isfunction(value)) and value.__module__.startswith("stratagp"):
                found[f"{value.__module__}.{value.__qualname__}"] = value
    return found


def test_every_public_name_has_an_example() -> None:
    bare = sorted(name for name, value in public().items() if ">>>" not in (value.__doc__ or ""))
    assert not bare, f"{len(bare)} public names have no example in their docstring: {bare}"
