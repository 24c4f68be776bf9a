"""The documentation site builds without a warning, and has every public name."""

import importlib
import inspect
import os
import pkgutil
import re
import subprocess
import sys
from pathlib import Path

import pytest

import stratagp

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    for name in ("mkdocs", "material", "mkdocstrings_handlers.python"):
        pytest.importorskip(name, reason="the extra 'docs' is not installed: make docs", exc_type=ImportError)
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    run = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    assert not run.stderr
    return folder


def is_own(value: object, package: str) -> bool:
    """Whether a class or function is defined in a package, and meant for others."""
    named = (inspect.isclass(value) or inspect.isfunction(value)) and not value.__name__.startswith("_")
    return bool(named) and value.__module__.startswith(package)


def test_every_public_name_has_an_entry(site: Path) -> None:
    missing = []
    for info in pkgutil.iter_modules(stratagp.__path__):
        if info.name.startswith("_"):
            continue
        page = (site / "api" / f"{info.name}.html").read_text(encoding="utf-8")
        module = importlib.import_module(f"stratagp.{info.name}")
        own = [name for name, value in vars(module).items() if is_own(value, module.__name__)]
        missing += [name for name in own if not re.search(rf'id="{re.escape(module.__name__)}\.[\w.]*\b{name}"', page)]
    assert not missing


def test_no_page_asks_the_network(site: Path) -> None:
    for page in site.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        for tag in ('<script src="http', '<link rel="stylesheet" href="http', '<img src="http'):
            assert tag not in text, page.name
