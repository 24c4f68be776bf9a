"""Kernels from text such as ``RBF*Periodic(period=1) + Linear(on="year")``: known names, literals, no eval."""

from __future__ import annotations

import ast
import difflib
import inspect
from typing import Any

import stratagp
from stratagp.errors import InputError, StrataGPError

OF_COLUMNS = (
    "RBF", "Matern", "Exponential", "RationalQuadratic", "PiecewisePolynomial", "Periodic", "Cosine", "SpectralMixture",
    "MetricRBF", "Constant", "White", "Linear", "Polynomial", "ArcCosine", "ArcSine", "GaussianUnits", "Brownian",
    "locally_periodic",
)  # fmt: skip
OF_TEXTS = (
    "Spectrum",
    "Mismatch",
    "Wildcard",
    "Gapped",
    "GappyPair",
    "Double",
    "Triple",
    "SimilarPairs",
    "Subsequence",
)
_LONGEST = 2000  # characters
_LARGEST = 3000  # columns, components and so on
_OF_ARGUMENTS = (StrataGPError, TypeError, ValueError, OverflowError, RuntimeError, MemoryError)  # which kernels raise


def parse_kernel(text: str) -> stratagp.kernels.Kernel:
    """The kernel that a text describes.

    Names stand for kernels with their defaults, ``RBF`` for ``RBF()``; ``+``, ``*`` and ``** 2`` compose them. Columns
    are chosen by ``on="year"``, ``on=["x", "y"]`` or ``.on("year")``.

    >>> parse_kernel("RBF(lengthscale=2)*Periodic(period=1) + Linear(on='year')")
    RBF(lengthscale=2, variance=1) * Periodic(lengthscale=1, period=1, variance=1) + Linear(variance=1).on('year')
    """
    if len(text) > _LONGEST:
        raise InputError(f"--kernel is {len(text)} characters long: at most {_LONGEST} are allowed")
    try:
        tree = ast.parse(text.strip(), mode="eval")
        found = _Reader(text.strip()).read(tree.body)
    except SyntaxError as error:
        raise _at(text.strip(), (error.offset or 1) - 1, error.msg) from None
    except (ValueError, RecursionError, MemoryError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"--kernel: {text[:60]!r} cannot be read: it is nested too deeply, or not text") from None
    if not isinstance(found, stratagp.kernels.Kernel):
        raise _at(text.strip(), 0, "a number alone is no kernel; write Constant")
    return found


def _at(text: str, column: int, reason: str) -> InputError:
    return InputError(f"--kernel: {reason}, at character {column + 1}: {text[:column]}>>>{text[column:]}")


def _message(error: Exception) -> str:
    """The first line of an error's message; torch writes more if memory is short."""
    return (str(error).splitlines() or [type(error).__name__])[0]


def _check_sizes(kernel: type, arguments: list[Any], named: dict[str, Any]) -> None:
    """Refuse sizes, such as numbers of columns, that would take all memory."""
    signature = inspect.signature(kernel)
    for name, value in signature.bind(*arguments, **named).arguments.items():
        if "int" in str(signature.parameters[name].annotation) and type(value) is int and abs(value) > _LARGEST:
            raise InputError(f"{name} must be at most {_LARGEST:,}")


class _Reader:
    def __init__(self, text: str) -> None:
        self.text = text

    def read(self, node: ast.expr) -> Any:
        if isinstance(node, ast.BinOp):
            return self._binary(node)
        if isinstance(node, ast.Name):
            return self._made(node, node, [], {})
        if isinstance(node, ast.Call):
            return self._call(node)
        if isinstance(node, ast.Constant) and type(node.value) in (int, float):
            return node.value
        raise self._refuse(node, "write kernels and numbers, joined by +, * and **")

    def _binary(self, node: ast.BinOp) -> Any:
        left, right = self.read(node.left), self.read(node.right)
        of_kernels = [isinstance(each, stratagp.kernels.Kernel) for each in (left, right)]
        try:
            if isinstance(node.op, ast.Add) and any(of_kernels):
                return left + right
            if isinstance(node.op, ast.Mult) and any(of_kernels):
                return left * right
            if isinstance(node.op, ast.Pow) and of_kernels == [True, False]:
                return left**right
        except _OF_ARGUMENTS as error:
            raise self._refuse(node, _message(error)) from None
        raise self._refuse(node, "join kernels by + and *, or raise one by ** to a whole number")

    def _call(self, node: ast.Call) -> Any:
        arguments = [self._literal(each) for each in node.args]
        named: dict[str, Any] = {}
        for each in node.keywords:
            if each.arg is None:
                raise self._refuse(node, "** is not allowed in arguments")
            if each.arg in named:
                raise self._refuse(node, f"the argument {each.arg!r} is given twice")
            named[each.arg] = self._literal(each.value)
        if isinstance(node.func, ast.Attribute) and not named:
            if node.func.attr == "on" and len(arguments) == 1:
                return self._on(node, self.read(node.func.value), arguments[0])
            if node.func.attr == "fix" and all(isinstance(each, str) for each in arguments):
                return self._fixed(node, self.read(node.func.value), arguments)
        if not isinstance(node.func, ast.Name):
            raise self._refuse(node, 'the only methods allowed are .on("column") and .fix("parameter")')
        return self._made(node, node.func, arguments, named)

    def _made(self, node: ast.expr, name: ast.Name, arguments: list[Any], named: dict[str, Any]) -> Any:
        if name.id not in (*OF_COLUMNS, *OF_TEXTS):
            near = difflib.get_close_matches(name.id, [*OF_COLUMNS, *OF_TEXTS], 1, 0.5)
            every = f"known are {', '.join(OF_COLUMNS)}; for texts {', '.join(OF_TEXTS)}"
            hint = f"did you mean {near[0]}?" if near else every
            raise self._refuse(name, f"there is no kernel {name.id!r}; {hint}")
        own = {key: value for key, value in named.items() if key != "on"}
        kernel = vars(stratagp.kernels)[name.id]
        known = list(inspect.signature(kernel).parameters)
        if unknown := [key for key in own if key not in known]:
            near = difflib.get_close_matches(unknown[0], known, 1, 0.6)
            hint = f"did you mean {near[0]}?" if near else f"it has {', '.join([*known, 'on'])}"
            raise self._refuse(node, f"{name.id} has no argument {unknown[0]!r}; {hint}")
        try:
            _check_sizes(kernel, arguments, own)
            made = kernel(*arguments, **own)
        except _OF_ARGUMENTS as error:
            raise self._refuse(node, f"{name.id}: {_message(error)}") from None
        return self._on(node, made, named["on"]) if "on" in named else made

    def _on(self, node: ast.expr, kernel: stratagp.kernels.Kernel, columns: Any) -> stratagp.kernels.Kernel:
        try:
            return kernel.on(columns)
        except (AttributeError, *_OF_ARGUMENTS) as error:
            raise self._refuse(node, _message(error)) from None

    def _fixed(self, node: ast.expr, kernel: Any, names: list[str]) -> Any:
        try:
            return kernel.fix(*names)
        except (AttributeError, KeyError, *_OF_ARGUMENTS) as error:
            raise self._refuse(node, _message(error)) from None

    def _literal(self, node: ast.expr) -> Any:
        try:
            return ast.literal_eval(node)
        except (ValueError, TypeError, SyntaxError):
            raise self._refuse(node, "arguments must be numbers, texts, True, False, None or lists of these") from None

    def _refuse(self, node: ast.expr, reason: str) -> InputError:
        before = self.text.encode()[: node.col_offset].decode(errors="ignore")
        return _at(self.text, len(before), reason)
