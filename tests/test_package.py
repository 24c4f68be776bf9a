"""Promises about the package as a whole: what it loads, ships, documents and leaves out."""

import ast
import importlib
import importlib.metadata
import inspect
import pkgutil
import re
import shutil
import subprocess
import sys
from importlib import resources
from pathlib import Path

import pytest
import torch

import stratagp
from stratagp.linalg import scaled_sqdist

ROOT = Path(__file__).parents[1]
SOURCES = sorted((ROOT / "src").rglob("*.py"))
EXTRAS = ("pandas", "matplotlib", "pyarrow", "gpytorch", "rich")


def public_modules() -> list[str]:
    """The package, its sub-packages and its top modules: where users import from."""
    names = [info.name for info in pkgutil.iter_modules(stratagp.__path__) if not info.name.startswith("_")]
    return ["stratagp", *(f"stratagp.{name}" for name in names)]


def tracked_files() -> list[Path]:
    if shutil.which("git") is None or not (ROOT / ".git").exists():
        pytest.skip("this is not a git checkout")
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    listing = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [ROOT / line for line in listing.splitlines() if (ROOT / line).is_file()]


def test_import_loads_no_extra() -> None:
    late = (
        "cli",
        "report",
        "plotting",
        "estimators",
        "baselines",
    )  # loaded when asked for; scikit-learn brings pandas along
    modules = [name for name in public_modules() if name.split(".")[-1] not in late]
    code = f"import sys, {', '.join(modules)}; print([m for m in {EXTRAS!r} if m in sys.modules])"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


def test_a_star_brings_the_estimators_and_what_is_public() -> None:
    found: dict[str, object] = {}
    exec("from stratagp import *", found)
    assert {*stratagp._ESTIMATORS, "ExactGP", "kernels", "positive"} <= set(found)
    public = {name for name, value in vars(stratagp).items() if getattr(value, "__module__", "").startswith("stratagp")}
    assert {name for name in public if not name.startswith("_")} <= set(stratagp.__all__)


def test_shapes_are_checked_in_this_session() -> None:
    with pytest.raises(TypeError, match="x"):
        scaled_sqdist(torch.zeros(3), torch.zeros(2, 1), torch.tensor(1.0))


def test_type_information_is_shipped() -> None:
    assert resources.files("stratagp").joinpath("py.typed").is_file()


def test_version_is_the_one_of_the_project() -> None:
    tomllib = pytest.importorskip("tomllib")
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert declared == stratagp.__version__ == importlib.metadata.version("stratagp")


@pytest.mark.parametrize("module", public_modules())
def test_public_names_are_documented(module: str) -> None:
    loaded = importlib.import_module(module)
    members = {name: value for name, value in vars(loaded).items() if not name.startswith("_")}
    own = [
        (name, value)
        for name, value in members.items()
        if (inspect.isclass(value) or inspect.isfunction(value)) and value.__module__.startswith("stratagp")
    ]
    assert loaded.__doc__, f"{module} has no docstring"
    bare = [name for name, value in own if not value.__doc__ or value.__doc__.startswith(f"{name}(")]
    assert not bare, f"{module} exports names without a docstring: {bare}"


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_nothing_is_left_undone(path: Path) -> None:
    found = re.search(r"\b(NotImplementedError|TODO|FIXME|XXX)\b", path.read_text())
    assert found is None, f"{path.name} contains {found and found[0]}"


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_own_code_is_imported_at_the_top(path: Path) -> None:
    functions = (node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.FunctionDef))
    lines = [node.lineno for function in functions for node in ast.walk(function) if imports_own_code(node)]
    assert not lines, f"{path.name} imports from the package inside a function, at lines {lines}"


def imports_own_code(node: ast.AST) -> bool:
    if isinstance(node, ast.ImportFrom):
        return node.level > 0 or (node.module or "").split(".")[0] == "stratagp"
    return isinstance(node, ast.Import) and any(alias.name.split(".")[0] == "stratagp" for alias in node.names)


def test_the_list_of_slow_tests_names_files_that_exist() -> None:
    listed = (ROOT / "tests" / "slow.txt").read_text("utf-8").split()
    assert listed == sorted(set(listed))
    assert not [name for name in listed if not (ROOT / name).is_file()]


def test_the_oldest_versions_are_the_bounds_of_the_project() -> None:
    tomllib = pytest.importorskip("tomllib")
    wanted = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    bounds = dict(re.match(r"([\w-]+)>=([\d.]+)", each).groups() for each in wanted)  # type: ignore[union-attr]
    lines = (ROOT / "constraints-oldest.txt").read_text("utf-8").splitlines()
    oldest = dict(line.split("==") for line in lines if not line.startswith("#"))
    assert bounds.keys() == oldest.keys()
    assert not [name for name, bound in bounds.items() if not (oldest[name] + ".").startswith(bound + ".")]
    page = (ROOT / "docs" / "project.md").read_text("utf-8")
    assert not [name for name, bound in bounds.items() if not re.search(rf"\b{name}\s{re.escape(bound)}[\s,]", page)]


def test_no_file_names_the_machine_it_was_written_on() -> None:
    machine = re.compile(rb"(?<![\w.)])/(?:" + b"|".join([b"work", b"root", b"tmp"]) + rb")\b")
    marked = [str(path.relative_to(ROOT)) for path in tracked_files() if machine.search(path.read_bytes())]
    assert not marked, f"these files contain a path of one machine: {marked}"
