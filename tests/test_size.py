"""A ratchet on size: prints the largest files and functions of the package, and fails above the limits."""

import ast
from pathlib import Path
from typing import NamedTuple

SOURCE = Path(__file__).parents[1] / "src"
FILE_LIMIT = 400
FUNCTION_LIMIT = 60
USUAL_FUNCTION, USUAL_SHARE = 25, 0.9


class Size(NamedTuple):
    lines: int
    name: str


def file_sizes(source: Path) -> list[Size]:
    paths = source.rglob("*.py")
    sizes = (Size(len(path.read_text().splitlines()), str(path.relative_to(source))) for path in paths)
    return sorted(sizes, reverse=True)


def function_sizes(source: Path) -> list[Size]:
    sizes = []
    for path in source.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                sizes.append(Size(body_lines(node), f"{path.relative_to(source)}:{node.lineno} {node.name}"))
    return sorted(sizes, reverse=True)


def body_lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Lines from the first statement after the docstring to the last."""
    body = function.body[1:] if ast.get_docstring(function) is not None else function.body
    return (body[-1].end_lineno or 0) - body[0].lineno + 1 if body else 0


def show(title: str, sizes: list[Size]) -> None:
    print(f"\n{title}")
    for size in sizes[:5]:
        print(f"  {size.lines:4d}  {size.name}")


def above(limit: int, sizes: list[Size]) -> list[Size]:
    return [size for size in sizes if size.lines > limit]


def test_no_file_is_long() -> None:
    sizes = file_sizes(SOURCE)
    show("the largest files", sizes)
    assert not above(FILE_LIMIT, sizes), f"a file of more than {FILE_LIMIT} lines has more than one subject"


def test_functions_are_short() -> None:
    sizes = function_sizes(SOURCE)
    usual = 1 - len(above(USUAL_FUNCTION, sizes)) / len(sizes)
    show(f"the largest functions; {usual:.1%} have at most {USUAL_FUNCTION} lines", sizes)
    assert not above(FUNCTION_LIMIT, sizes), f"no function may have more than {FUNCTION_LIMIT} lines"
    assert usual >= USUAL_SHARE, f"fewer than {USUAL_SHARE:.0%} of functions have at most {USUAL_FUNCTION} lines"


def test_the_docstring_does_not_count() -> None:
    module = ast.parse('def f(x):\n    """One.\n\n    Two.\n    """\n    y = x\n    return (\n        y\n    )\n')
    (function,) = module.body
    assert isinstance(function, ast.FunctionDef)
    assert body_lines(function) == 4
