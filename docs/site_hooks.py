"""What ``mkdocs`` is told beyond ``mkdocs.yml``: pages of the API, files from outside ``docs/``, links to them."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "stratagp"
PAGES = {"CHANGELOG.md": "changelog.md", "CONTRIBUTING.md": "contributing.md"}
SCRIPTS = ("examples", "benchmarks")
LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)#\s]+)((?:#[^)]*)?)\)")


def on_config(config: Any) -> Any:
    """The navigation ends with a page for each package and module that users import from."""
    config.nav.append({"API": [{name: f"api/{name}.md"} for name in _modules()]})
    return config


def on_files(files: Files, config: Any) -> Files:
    """Add pages of the API, and the pages and scripts that lie beside ``docs/``."""
    for name in _modules():
        files.append(File.generated(config, f"api/{name}.md", content=_api_page(name)))
    for source, target in PAGES.items():
        files.append(File.generated(config, target, abs_src_path=str(ROOT / source)))
    for folder in SCRIPTS:
        for path in sorted((ROOT / folder).rglob("*.py")):
            target = f"scripts/{path.relative_to(ROOT).as_posix()}"
            files.append(File.generated(config, target, abs_src_path=str(path)))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Point links at where files are on the site; a folder has no page, and its link becomes plain text."""
    up = "../" * page.file.src_uri.count("/")
    here = ROOT if page.file.src_uri in PAGES.values() else (ROOT / "docs" / page.file.src_uri).parent

    def moved(link: re.Match[str]) -> str:
        mark, text, target, anchor = link.groups()
        path = (here / target).resolve()
        if target.startswith("http") or page.file.src_uri.startswith("api/"):
            return link[0]
        return text if path.is_dir() else f"{mark}[{text}]({up}{_on_site(path)}{anchor})"

    return LINK.sub(moved, markdown)


def _on_site(path: Path) -> str:
    """Where a file of the project is on the site."""
    inside = path.relative_to(ROOT).as_posix()
    if inside in PAGES:
        return PAGES[inside]
    return inside.removeprefix("docs/") if inside.startswith("docs/") else f"scripts/{inside}"


def _modules() -> list[str]:
    """The packages and modules that users import from, in the order of the alphabet."""
    packages = [path.parent.name for path in PACKAGE.glob("*/__init__.py")]
    modules = [path.stem for path in PACKAGE.glob("*.py")]
    return sorted(name for name in packages + modules if not name.startswith("_"))


def _api_page(name: str) -> str:
    """The docstring of a package, and a mark for each public name that ``mkdocstrings`` puts its page in place of."""
    package = PACKAGE / name / "__init__.py"
    source = package if package.is_file() else PACKAGE / f"{name}.py"
    tree = ast.parse(source.read_text(encoding="utf-8"))
    found = _imported(tree) if package.is_file() else [f"stratagp.{name}.{each}" for each in _defined(tree)]
    marks = "\n\n".join(f"::: {each}" for each in found)
    return f"# stratagp.{name}\n\n{ast.get_docstring(tree) or ''}\n\n{marks}\n"


def _imported(tree: ast.Module) -> list[str]:
    """Where the names are defined that a package makes public by ``from … import name as name``."""
    imports = (node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom))
    names = [(node.module, each.name) for node in imports for each in node.names if each.asname == each.name]
    return [f"{module}.{name}" for module, name in names if module and module.startswith("stratagp.")]


def _defined(tree: ast.Module) -> list[str]:
    """The public classes and functions that a module defines."""
    nodes = (node for node in tree.body if isinstance(node, ast.ClassDef | ast.FunctionDef))
    return [node.name for node in nodes if not node.name.startswith("_")]
