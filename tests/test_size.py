"""Limits on size: a file has one subject, and a function can be read at a glance."""

import ast
from pathlib import Path
from typing import NamedTuple

SOURCE = Path(__file__).parents[1] / "src"
FILE_LIMIT = 400
FUNCTION_LIMIT = 60


class Size(NamedTuple):
    lines: int
    name: str


def file_sizes(source: Path) -> list[Size]:
    return [Size(len(path.read_text().splitlines()), str(path.relative_to(source))) for path in source.rglob("*.py")]


def function_sizes(source: Path) -> list[Size]:
    return [
        Size(body_lines(node), f"{path.relative_to(source)}:{node.lineno} {node.name}")
        for path in source.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]


def body_lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Lines from the first statement after the docstring to the last."""
    body = function.body[1:] if ast.get_docstring(function) is not None else function.body
    return (body[-1].end_lineno or 0) - body[0].lineno + 1 if body else 0


def above(limit: int, sizes: list[Size]) -> str:
    """A line for each that is larger, the largest first; empty where there is none."""
    return "".join(f"\n  {size.lines:4d}  {size.name}" for size in sorted(sizes, reverse=True) if size.lines > limit)


def test_files_are_short() -> None:
    found = above(FILE_LIMIT, file_sizes(SOURCE))
    assert not found, f"files of more than {FILE_LIMIT} lines:{found}"


def test_functions_are_short() -> None:
    found = above(FUNCTION_LIMIT, function_sizes(SOURCE))
    assert not found, f"functions of more than {FUNCTION_LIMIT} lines without their docstrings:{found}"


def test_offenders_are_named_with_their_sizes() -> None:
    assert (
        above(10, [Size(10, "fits.py"), Size(11, "a.py"), Size(200, "b.py:3 f")]) == "\n   200  b.py:3 f\n    11  a.py"
    )


def test_the_docstring_does_not_count() -> None:
    module = ast.parse('def f(x):\n    """One.\n\n    Two.\n    """\n    y = x\n    return (\n        y\n    )\n')
    (function,) = module.body
    assert isinstance(function, ast.FunctionDef)
    assert body_lines(function) == 4
