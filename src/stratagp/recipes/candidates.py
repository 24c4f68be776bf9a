"""What a stack may be made of: kernels, noise, functions of columns and targets, and trees, as data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float
from torch import Tensor

from stratagp.kernels import RBF, Kernel, Linear, Matern
from stratagp.likelihoods import Likelihood, NegativeBinomial, Poisson, ZeroInflated
from stratagp.models.warps import Asinh, Chosen, Log, Logit, NormalScores, Standard, Warp
from stratagp.parameters import positive
from stratagp.recipes import choose
from stratagp.recipes.base import Data, Recipe, Rows
from stratagp.recipes.boosted_mean import BoostedMeanRecipe
from stratagp.recipes.choose import EXACT_ROWS
from stratagp.recipes.classes import ClassRecipe
from stratagp.recipes.count_trees import CountTreesRecipe
from stratagp.recipes.counts import CountRecipe
from stratagp.recipes.exact import ExactRecipe
from stratagp.recipes.fold_classes import ClassKind, FoldClassesRecipe
from stratagp.recipes.outliers import OutliersRecipe, found_outliers
from stratagp.recipes.spread import SpreadRecipe
from stratagp.recipes.trees import Kind, TreesRecipe
from stratagp.recipes.varying_noise import VaryingNoiseRecipe
from stratagp.recipes.vecchia import VecchiaRecipe
from stratagp.recipes.vecchia_classes import VecchiaClassRecipe

_SKEWED = 1.0  # skewness of a column or a target from which on another scale is tried
_LONG_TAILS = 4.0  # excess kurtosis of a target from which on its tails are bent
_TRIAL = 1000  # rows up to which a first trial takes closed forms, however many rows there are
_MOST_COUNTED = 30.0  # the mean of counts: rounding hardly matters to larger ones
MANY_CLASSES = 30  # above which no process learns in a reasonable time
_MOST_BOOSTED = 100  # classes above which no boosting does
_FEW_COLUMNS = 30  # up to which a linear part is tried
_MEMORY = 10.0  # lengthscale of what wanders along a column, in units of the range that rows have there
_MOST_CHOSEN = 10  # columns of a process that sees those alone which trees find relevant
_MOST_CORRELATED = 100  # columns up to which Gaussian classes are tried
_NAMES: dict[ClassKind, str] = {
    "boosting": "boosted trees",
    "extra trees": "extra trees",
    "Gaussians": "Gaussian classes",
}

ANYWHERE = (-np.inf, np.inf)
AS_COUNTS = (-0.5, np.inf)  # what numbers lie between that are read as counts
Make = Callable[[Rows], Recipe]
InputsOf = Callable[[Data], NormalScores | Chosen]
WarpOf = Callable[[Float[np.ndarray, " n"]], Warp]


@dataclass(frozen=True)
class Candidate:
    """A way to learn from a table.

    Arguments:
        name: in the leaderboard.
        make: the recipe for rows.
        why: what its weight says about the data.
        inputs: what columns go through, from the rows; None for columns as they are.
        warp: the increasing function of the target, from the targets; None for targets as they are.
        whole: whether it predicts real numbers, which are read as counts.
        narrows: whether its predictions can be narrowed.
        process: whether its cost grows fast with rows, so that it is tried on few of them first; trees learn by folds,
            and tell themselves what they say of rows that they have not seen.
    """

    name: str
    make: Make
    why: str
    inputs: InputsOf | None = None
    warp: WarpOf | None = None
    whole: bool = False
    narrows: bool = True
    process: bool = True


def are_counts(y: Float[np.ndarray, " n"]) -> bool:
    """Whether targets are counts: whole numbers from 0 on that repeat, have no common divisor, and are small.

    There must be three values at least, and two rows for each on average. A mean of at most 30 leaves out amounts in
    cents, and a least value below the range leaves out years.

    >>> are_counts(np.array([0.0, 2, 1, 0, 3, 1, 1, 0])), are_counts(np.array([1998.0, 2001, 1999, 1998, 2001, 1999]))
    (True, False)
    """
    values = np.unique(y)
    if len(y) < 2 * len(values) or len(values) < 3 or values[0] < 0 or (values != np.floor(values)).any():
        return False
    small = y.mean() <= _MOST_COUNTED and values[0] < values[-1] - values[0]
    return bool(small and np.gcd.reduce(values.astype(np.int64)) == 1)


def of_counts(
    x: Float[Tensor, "n d"],
    y: Float[Tensor, " n"],
    support: tuple[float, float] = AS_COUNTS,
    every: bool = False,
) -> list[Candidate]:
    """Candidates for counts: likelihoods of counts, and all for numbers, read as counts. Arguments as of
    :func:`of_numbers`."""
    clustered, multiply = NegativeBinomial(), "counts whose causes multiply"
    found = [
        _counted("negative binomial, Matérn 5/2", clustered, _matern(2.5), multiply),
        Candidate(
            "boosted counts", lambda rows: CountTreesRecipe(), f"{multiply}, in steps", narrows=False, process=False
        ),
        _counted("Poisson, Matérn 5/2", Poisson(), _matern(2.5), "independent events whose causes multiply"),
    ]
    if every or has_many_zeros(y.numpy()):
        why = f"{multiply}, and rows that are always zero"
        found.insert(1, _counted("zero-inflated, Matérn 5/2", ZeroInflated(clustered), _matern(2.5), why))
    if every or x.shape[1] <= _FEW_COLUMNS:
        why = f"{multiply}, mostly along straight lines"
        found.append(_counted("negative binomial, linear and Matérn 3/2", clustered, _with_line, why))
    others = [replace(each, warp=each.warp or Standard.learnt, whole=True) for each in of_numbers(x, y, support, every)]
    return [*found, *others]


def has_many_zeros(y: Float[np.ndarray, " n"]) -> bool:
    """Whether there are more zeros than among negative binomial counts of the same mean and variance.

    By two standard errors; without more variance than mean these are Poisson counts.

    >>> has_many_zeros(np.array([0.0] * 50 + [4, 5, 6] * 20)), has_many_zeros(np.array([0.0, 1, 0, 2, 1, 3] * 10))
    (True, False)
    """
    mean, extra = float(y.mean()), max(float(y.var() - y.mean()), 1e-9)
    expected = (mean / (mean + extra)) ** (mean**2 / extra)
    return bool((y == 0).mean() > expected + 2 * np.sqrt(expected * (1 - expected) / len(y)))


def _counted(name: str, likelihood: Likelihood, kernel: Callable[[], Kernel], why: str) -> Candidate:
    """A process for the log of the rate."""
    return Candidate(
        name, lambda rows: CountRecipe(rows.bind(kernel(), Matern()), likelihood), f"{why}, smoothly", narrows=False
    )


def of_numbers(
    x: Float[Tensor, "n d"],
    y: Float[Tensor, " n"],
    support: tuple[float, float] = ANYWHERE,
    every: bool = False,
) -> list[Candidate]:
    """Candidates for one target, the most promising first.

    Arguments:
        support: what targets lie between; strictly, where an end is finite.
        every: whether to offer those too that columns and targets do not ask for.
    """
    smooth, rough = "a smooth function", "a function with steps and corners"
    varies, many = "and noise that differs between rows", len(x) > EXACT_ROWS
    found = [
        Candidate("Matérn 5/2, noise varies", _noisy(_matern(2.5), many), f"{smooth}, {varies}"),
        _trees("boosting", "steps and interactions"),
        Candidate("Matérn 1/2, noise varies", _noisy(_matern(0.5), many), f"{rough}, {varies}"),
        _trees("extra trees", "steps in many columns"),
        Candidate("squared exponential", _plain(lambda: RBF(ard=True), many), "a very smooth function"),
        Candidate("boosted mean, Matérn 3/2", _boosted(many), "steps, with a smooth function on what they leave"),
    ]
    if not many or every:  # of many rows too many would have to be left out
        why = f"{smooth}, and errors with long tails"
        found.insert(3, Candidate("Matérn 5/2, long tails", _spread(_matern(2.5), many), why))
    if every or _is_skewed(x):
        ranks = Candidate("ranks, Matérn 3/2", _noisy(_matern(1.5), many), "columns with long tails", inputs=_scores)
        found.insert(3, ranks)
    if every or x.shape[1] > _MOST_CHOSEN:
        few = Candidate(
            "few columns, Matérn 5/2", _noisy(_matern(2.5), many), "a function of few columns", inputs=_chosen
        )
        found.insert(1, few)
    if every or x.shape[1] <= _FEW_COLUMNS:
        found.append(Candidate("linear and Matérn 3/2", _plain(_with_line, many), "a straight line with bends"))
    odd = found_outliers(Data(x, y[:, None]), seed=0)
    apart = _with_outliers(many) if every or odd.any() else []
    shares = [_of_shares(*support, many)] if np.isfinite(support).all() else []
    return [*apart, *shares, *_of_warped(y.numpy()[~odd], support[0], every, many), *found]


def of_later(order: int | None, rows: int) -> list[Candidate]:
    """Candidates for targets of later rows, which go on from the last ones instead of falling back to the average.

    Arguments:
        order: the column that tells which rows are later; None where there is no order.
    """
    if order is None:
        return []
    many = rows > EXACT_ROWS
    return [
        Candidate("wandering level, Matérn 3/2", _later(0.5, order, many), "a level that wanders from its last value"),
        Candidate("wandering trend, Matérn 3/2", _later(1.5, order, many), "a trend that goes on for a while"),
    ]


def _later(nu: float, order: int, many: bool) -> Make:
    """A process of very long memory along one column, and another of all columns."""

    def make(rows: Rows) -> Recipe:
        places = rows.data.x[:, order]
        memory = _MEMORY * max(float(places.max() - places.min()), 1e-9)
        long = Matern(nu=nu, lengthscale=positive(memory, trainable=False)).on(order)
        return _plain(lambda: long + Matern(nu=1.5, ard=True), many)(rows)

    return make


def _of_shares(low: float, high: float, many: bool) -> Candidate:
    """The candidate for targets strictly between two bounds."""
    warp: WarpOf = lambda y: Logit.learnt(y, low, high)  # noqa: E731
    return Candidate("log odds, Matérn 5/2", _noisy(_matern(2.5), many), "shares between 0 and 1", warp=warp)


def _with_outliers(many: bool) -> list[Candidate]:
    """Candidates for targets of which a few are gross mistakes."""
    smooth = _noisy(_matern(2.5), many)
    why = "some targets far from what others of their kind suggest"
    return [
        Candidate("outliers apart, Matérn 5/2", lambda rows: OutliersRecipe(smooth(rows)), f"a smooth function, {why}"),
        replace(
            _trees("boosting", f"steps and interactions, {why}"),
            name="outliers apart, boosted trees",
            make=lambda rows: OutliersRecipe(TreesRecipe("boosting")),
        ),
    ]


def _trees(kind: Kind, why: str) -> Candidate:
    return Candidate(_NAMES[kind], lambda rows: TreesRecipe(kind), why, process=False)


def _of_warped(y: Float[np.ndarray, " n"], low: float, every: bool, many: bool) -> list[Candidate]:
    """Candidates for a target with long tails."""
    found, z = [], (y - y.mean()) / (y.std() or 1.0)
    positive = np.isfinite(low)
    skewed = positive and np.mean(z**3) > _SKEWED
    smooth = _noisy(_matern(2.5), many)
    if positive and (skewed or every):
        warp: WarpOf = lambda y: Log.learnt(y, low)  # noqa: E731
        trees = replace(_trees("boosting", "effects that multiply, in steps"), name="log target, boosted trees")
        found += [Candidate("log target, Matérn 5/2", smooth, "effects that multiply", warp=warp)]
        found += [replace(trees, warp=warp)]
    if every or (not skewed and np.mean(z**4) - 3 > _LONG_TAILS):
        found += [Candidate("bent target, Matérn 5/2", smooth, "long tails", warp=Asinh.learnt)]
    return found


def of_classes(x: Float[Tensor, "n d"], n_classes: int, every: bool = False) -> list[Candidate]:
    """Candidates for classes, the most promising first; arguments as of :func:`of_numbers`.

    Of many classes trees alone compete: a process for each takes too long.
    """
    if n_classes > MANY_CLASSES and not every:
        kinds: list[ClassKind] = ["extra trees", "boosting"]
        return [_by_folds(kind, "quick for many classes") for kind in kinds[: 1 + (n_classes <= _MOST_BOOSTED)]]
    many = choose.of_classes("auto", len(x), n_classes, False, "map")[0] != "laplace"
    found = [
        _by_folds("boosting", "steps and interactions"),
        Candidate("Matérn 5/2", _classes(_matern(2.5), many), "smooth borders between classes"),
        Candidate("Matérn 1/2", _classes(_matern(0.5), many), "borders with corners"),
        _by_folds("extra trees", "steps in many columns"),
        Candidate("squared exponential", _classes(lambda: RBF(ard=True), many), "very smooth borders"),
    ]
    if every or _is_skewed(x):
        ranks = Candidate("ranks, Matérn 3/2", _classes(_matern(1.5), many), "columns with long tails", inputs=_scores)
        found.insert(3, ranks)
    if every or x.shape[1] <= _MOST_CORRELATED:
        gaussian = _by_folds("Gaussians", "classes that are clouds of rows")
        why = "classes that are clouds of rows, in columns with long tails"
        found[1:1] = [gaussian, replace(gaussian, name="ranks, Gaussian classes", why=why, inputs=_scores)]
    if every or x.shape[1] <= _FEW_COLUMNS:
        found.append(Candidate("linear and Matérn 3/2", _classes(_with_line, many), "straight borders with bends"))
    return found


def _by_folds(kind: ClassKind, why: str) -> Candidate:
    return Candidate(_NAMES[kind], lambda rows: FoldClassesRecipe(kind), why, process=False)


def _matern(nu: float) -> Callable[[], Kernel]:
    return lambda: Matern(nu=nu, ard=True)


def _with_line() -> Kernel:
    return Linear(ard=True) + Matern(nu=1.5, ard=True)


def _scores(data: Data) -> NormalScores:
    return NormalScores.learnt(data.x)


def _chosen(data: Data) -> Chosen:
    return Chosen.learnt(data.x, data.y[:, 0], _MOST_CHOSEN)


def _plain(kernel: Callable[[], Kernel], many: bool) -> Make:
    """A process with noise of one level: exact for few rows, Vecchia's if there are many in all."""

    def make(rows: Rows) -> Recipe:
        bound = rows.bind(kernel(), Matern())
        return VecchiaRecipe(bound) if many and len(rows.data) > _TRIAL else ExactRecipe(bound)

    return make


def _noisy(kernel: Callable[[], Kernel], many: bool) -> Make:
    return lambda rows: VaryingNoiseRecipe(_plain(kernel, many)(rows))


def _spread(kernel: Callable[[], Kernel], many: bool) -> Make:
    return lambda rows: SpreadRecipe(_plain(kernel, many)(rows))


def _boosted(many: bool) -> Make:
    """Width and shape come from leave-one-out errors where these are quick to have: for few rows."""

    def make(rows: Rows) -> Recipe:
        recipe = BoostedMeanRecipe(_plain(_matern(1.5), many)(rows))
        return recipe if many else SpreadRecipe(recipe)

    return make


def _classes(kernel: Callable[[], Kernel], many: bool) -> Make:
    """Laplace's method for few rows, Vecchia's process if there are many in all."""

    def make(rows: Rows) -> Recipe:
        bound = rows.bind(kernel(), Matern())
        return VecchiaClassRecipe(bound) if many and len(rows.data) > _TRIAL else ClassRecipe(bound)

    return make


def _is_skewed(x: Float[Tensor, "n d"]) -> bool:
    """Whether a column of more than two values has a long tail."""
    return bool(np.abs(_skewness(x.numpy())).max(initial=0) > _SKEWED)


def _skewness(x: Float[np.ndarray, "n d"]) -> Float[np.ndarray, " d"]:
    """Of each column; 0 where it has two different values at most."""
    spread = x.std(0)
    z = (x - x.mean(0)) / np.where(spread > 0, spread, 1.0)
    two = np.array([len(np.unique(column[:: max(1, len(column) // 1000)])) <= 2 for column in x.T], dtype=bool)
    return np.where(two, 0.0, (z**3).mean(0))
