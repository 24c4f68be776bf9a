"""Which recipe runs, from rows, columns, kinds and options, and why. Every threshold stands here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from stratagp.errors import InputError
from stratagp.kernels import Kernel
from stratagp.recipes.base import Recipe
from stratagp.recipes.exact import ExactRecipe
from stratagp.recipes.options import OneOf
from stratagp.recipes.search import Search
from stratagp.recipes.sparse import SparseRecipe
from stratagp.recipes.stochastic import StochasticRecipe
from stratagp.recipes.vecchia import VecchiaRecipe

EXACT_ROWS = 4000  # up to which "auto" is exact: some minutes on two cores
LAPLACE_ROWS = 3000  # rows (times classes, if more than two) up to which "auto" takes Laplace
TEXT_ROWS = 2000  # the same for a column of texts alone, up to which each is compared with each
INDUCING = 500  # inducing points of a sparse process
CLASS_NEIGHBOURS = 60  # rows that a prediction of classes by Vecchia's process comes from
_CLOSED_ROWS, _CLOSED_INDUCING = 20_000, 50  # up to which deep processes take the collapsed bound

_SECONDS: dict[str, Callable[[float, int], float]] = {  # of thousands of rows and of columns, from benchmarks/sizes.py
    "exact": lambda k, d: 2.3 * k + 0.18 * k**3,
    "vecchia": lambda k, d: (14 + d) * min(1.0, k / 4) ** 0.6 + 0.04 * k,
    "noise, from few rows": lambda k, d: 10 + 0.4 * d + 0.4 * min(k, 50),  # Vecchia's, from values of 800 rows
}

Choice = tuple[str, str]
"""A way of inference, and why."""


@dataclass(frozen=True)
class Asked:
    """What a way of inference for numbers is asked with: a kernel that knows its columns, and options."""

    kernel: Kernel
    mean: Any
    n_inducing: int
    search: Search
    max_epochs: int | None
    given: bool = True
    n_neighbours: int | None = None


WAYS: dict[str, Callable[[Asked], Recipe]] = {  # a new way of inference is one more line
    "exact": lambda asked: ExactRecipe(
        asked.kernel if asked.given else None, asked.mean, asked.search, _vecchia(asked)
    ),
    "sparse": lambda asked: SparseRecipe(asked.kernel, asked.n_inducing, asked.mean, asked.search),
    "stochastic": lambda asked: StochasticRecipe(
        asked.kernel, asked.n_inducing, asked.mean, None, asked.search, asked.max_epochs
    ),
    "vecchia": lambda asked: _vecchia(asked),
}
Inference = Annotated[Literal["auto", "exact", "vecchia", "sparse", "stochastic"], OneOf(WAYS)]


def _vecchia(asked: Asked) -> VecchiaRecipe:
    return VecchiaRecipe(asked.kernel if asked.given else None, asked.n_neighbours, asked.mean, asked.search)


def seconds_of(way: str, n: int, columns: int) -> float:
    """Seconds that a fit with defaults took on two cores."""
    return _SECONDS[way](n / 1000, columns)


def seconds_of_classes(n: int, n_classes: int) -> float:
    """Seconds that Vecchia's processes of classes take, one for each of more than two; 0 for Laplace's method.

    >>> seconds_of_classes(10_000, 7), seconds_of_classes(1000, 2)
    (385.0, 0.0)
    """
    if _latent_values(n, n_classes) <= LAPLACE_ROWS:
        return 0.0
    return (n_classes if n_classes > 2 else 1) * (25 + 0.003 * n)


def in_about(way: str, n: int, columns: int) -> str:
    """How long a fit with defaults took that was measured on two cores; empty where none was.

    >>> in_about("exact", 4000, 9), in_about("vecchia", 1_000_000, 8), in_about("exact", 100, 1)
    (', in about 20 s on two cores', ', in about 1 minute on two cores', ', in less than 1 s on two cores')
    """
    if way not in _SECONDS:
        return ""
    seconds = seconds_of(way, n, columns)
    if seconds < 1:
        return ", in less than 1 s on two cores"
    size, unit = next((size, unit) for size, unit in ((3600, "hour"), (60, "minute"), (1, "s")) if seconds >= size)
    count = float(f"{seconds / size:.1g}")
    return f", in about {count:g} {unit}{'s' if size > 1 and count > 1 else ''} on two cores"


def of_numbers(
    asked: str,
    n: int,
    only_exact: str | None,
    over_objects: bool,
    hyperparameters: str,
    columns: int,
) -> Choice:
    """The way of inference for ``n`` rows of numbers, and why; with the time that a fit takes where it chose itself.

    Arguments:
        asked: what the user asked for, or "auto".
        only_exact: why only the exact process can serve; None where others can.
        over_objects: whether the kernel is over objects.
    """
    inference, reason = _of_numbers(asked, n, only_exact, over_objects)
    if asked == "auto" and only_exact is None and not over_objects and hyperparameters == "map":
        reason += in_about(inference, n, columns)
    if inference != "exact" and hyperparameters == "loo":
        raise InputError(
            f"hyperparameters='loo' needs inference='exact', but {n} rows take {inference!r}: ask for exact"
        )
    if inference in ("vecchia", "stochastic") and hyperparameters == "bayes":
        raise InputError(
            f"hyperparameters='bayes' needs inference='exact' or 'sparse': {inference!r} knows the evidence by samples"
        )
    return inference, reason


def _of_numbers(asked: str, n: int, only_exact: str | None, over_objects: bool) -> Choice:
    if over_objects and only_exact is None:
        only_exact = "kernels over objects have no inducing points"
    if only_exact is not None:
        if asked not in ("auto", "exact"):
            raise InputError(f"inference must be 'exact' or 'auto' here, got {asked!r}: {only_exact}")
        return "exact", only_exact
    if asked != "auto":
        return asked, "as asked for"
    if n <= EXACT_ROWS:
        return "exact", f"{n:,} rows are at most {EXACT_ROWS:,}: the exact process"
    return "vecchia", f"{n:,} rows are more than {EXACT_ROWS:,}: each prediction comes from the nearest of them"


def of_classes(asked: str, n: int, n_classes: int, over_objects: bool, hyperparameters: str) -> Choice:
    """The way of inference for ``n`` rows of classes."""
    if asked not in ("auto", "vecchia", "stochastic"):
        return asked, "as asked for"
    size = _latent_values(n, n_classes)
    if asked == "auto" and size <= LAPLACE_ROWS:
        return "laplace", f"{size:,} latent values are at most {LAPLACE_ROWS:,}: Laplace's method"
    if asked == "auto" and over_objects:
        return "laplace", "kernels over objects have neither neighbours nor inducing points"
    if over_objects:
        raise InputError(f"inference={asked!r} needs a kernel over columns: for objects take 'laplace' or 'ep'")
    if hyperparameters == "bayes":
        raise InputError("hyperparameters='bayes' needs closed forms: ask for inference='laplace', or fewer rows")
    if asked != "auto":
        return asked, "as asked for"
    return "vecchia", f"{size:,} latent values are more than {LAPLACE_ROWS:,}: predictions come from the nearest rows"


def _latent_values(n: int, n_classes: int) -> int:
    """How many values of latent functions there are: one function for two classes, else one for each."""
    return n * (n_classes if n_classes > 2 else 1)


def of_table(
    n: int,
    n_classes: int = 0,
    texts: Sequence[str] = (),
    alone: bool = False,
    *,
    log: bool = False,
    files: bool = False,
    columns: int = 8,
) -> Choice:
    """The way of inference for a table of any columns: that for its numbers or classes, or "features" for texts.

    "features" is a process over texts and columns with random features behind it, which learns from mini-batches.

    Arguments:
        n: rows to learn from.
        n_classes: how many classes there are; 0 where the target is a number.
        texts: the names of columns that hold texts.
        alone: whether one column of texts is all there is.
        log: whether the logarithm of the target is learnt.
        files: whether rows are read from files in batches.
        columns: how many there are, for the time that a fit takes.

    >>> of_table(5000)[0], of_table(5000, texts=["gene"])[0], of_table(5000, 3)[0]
    ('vecchia', 'features', 'vecchia')
    """
    if log:
        return "features" if texts else "stochastic", "only mini-batches learn the logarithm of the target"
    if alone and _latent_values(n, n_classes) <= TEXT_ROWS:
        return "laplace" if n_classes else "exact", f"{n:,} texts are at most {TEXT_ROWS:,}: a process over texts"
    if texts:
        return "features", f"the column {texts[0]!r} holds texts: processes over texts and columns"
    if files:
        return "stochastic", "rows read from files in batches need mini-batches"
    if n_classes:
        return of_classes("auto", n, n_classes, over_objects=False, hyperparameters="map")
    return of_numbers("auto", n, None, False, "map", columns)


def is_collapsed(asked: str, possible: bool, rows: int, n_inducing: int, likelihood: str) -> Choice:
    """Whether a deep process is trained in closed form ("collapsed") or by "batches"."""
    if asked == "collapsed" and not possible:
        raise InputError(f"inference='collapsed' is for Gaussian noise, not for {likelihood}")
    if asked != "auto":
        return asked, "as asked for"
    small = rows <= _CLOSED_ROWS and rows * n_inducing**2 <= _CLOSED_ROWS * _CLOSED_INDUCING**2
    if possible and small:
        return "collapsed", f"{rows} rows with {n_inducing} inducing points are few enough for the closed form"
    return (
        "batches",
        f"{rows} rows with {n_inducing} inducing points are too many for the closed form"
        if possible
        else "only Gaussian noise without held-out rows has a closed form",
    )
