"""The best answer without a choice of model: candidates, judged by held-out density, and a mixture of a few."""

from __future__ import annotations

from abc import ABC
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from stratagp.errors import InputError, NoAttributeError
from stratagp.estimators.classification import Classifier
from stratagp.estimators.inputs.base import RowsLike
from stratagp.estimators.intake import CheckpointLike
from stratagp.estimators.regression import Regressor
from stratagp.estimators.shell import Estimator
from stratagp.likelihoods import Likelihood
from stratagp.models.stack import StackModel
from stratagp.recipes.base import Recipe, Rows
from stratagp.recipes.candidates import AS_COUNTS, are_counts
from stratagp.recipes.options import Missing, Positive
from stratagp.recipes.stack import StackRecipe
from stratagp.training import HyperparameterTable

if TYPE_CHECKING:
    from typing_extensions import Self

_SHOWN = 10  # columns that a message lists
_CLEAR = 0.85  # of the weight: one member speaks almost alone


class Stacked(Estimator, ABC):
    """How a stack holds rows out, and what it tells about its members."""

    plan: Sequence[str] | None
    texts: Any
    order: str | int | None
    for_texts: ClassVar[str] = "give a data frame with a column of texts"

    def fit(
        self,
        X: RowsLike,
        y: ArrayLike | None = None,
        *,
        groups: ArrayLike | None = None,
        checkpoint: CheckpointLike = None,
    ) -> Self:
        """Learn from rows ``X`` and their targets or classes ``y``.

        Arguments:
            X: an array or a data frame.
            y: ``n`` numbers or labels.
            groups: a label for each row, where new rows will be of other groups: rows of one group are held out
                together. Patients, sites and machines that have several rows are groups.
            checkpoint: None, as a stack does not learn by steps.
        """
        if groups is not None and self.order is not None:
            raise InputError("groups does not go with order: rows are held out by groups or as later rows, give one")
        return self._learn(X, y, checkpoint, groups)

    def _order(self, rows: Rows) -> int | None:
        """The number of the column that tells which rows are later, among those that models see."""
        if self.order is None:
            return None
        names = list(vars(self).get("feature_names_in_", ())) or [f"x{i}" for i in range(vars(self)["n_features_in_"])]
        name = self.order
        if isinstance(name, int) and -len(names) <= name < len(names):
            name = names[name]
        if name not in rows.columns:
            raise InputError(
                f"order must be a column of numbers or dates of X, by its name or number, got {self.order!r}; models "
                f"see {', '.join(rows.columns[:_SHOWN])}"
            )
        return rows.columns.index(name)

    @property
    def _stack(self) -> StackModel:
        check_is_fitted(self, "fitted_")
        found: StackModel = vars(self)["fitted_"]
        return found

    def _check(self) -> None:
        plan = None if self.plan is None else list(self.plan)
        if plan is not None and (isinstance(self.plan, str) or not plan or len(set(plan)) < len(plan)):
            raise InputError(f"plan must be a list of different names of candidates, as in plan_, got {self.plan!r}")
        if isinstance(self.texts, str) and self.texts != "auto":
            raise InputError(f"texts must be 'auto' or a list of columns, got {self.texts!r}: write [{self.texts!r}]")

    @property
    def leaderboard_(self) -> Any:
        """A data frame with a row for each candidate, members of the stack first.

        Columns: ``candidate``; ``density``, the mean log density of held-out rows (of standardised targets; a log
        probability of classes and counts); ``error``, their root mean square error (the share of wrong classes);
        ``weight`` in the stack; ``rows`` that it had learnt from when judged; ``seconds``.
        """
        import pandas  # slow to load, and only needed here

        rows = [vars(entry) for entry in self._stack.board]
        frame = pandas.DataFrame(rows).rename(columns={"name": "candidate"})
        return frame.sort_values(["weight", "density"], ascending=False, ignore_index=True)

    @property
    def plan_(self) -> list[str]:
        """The candidates that were judged, in their order: given as ``plan``, the same fit needs no clock."""
        return self._stack.plan

    def explain(self) -> str:
        """In words, what the stack is made of and what that says about the data."""
        model = self._stack
        lines = [
            f"{member.name} has {100 * weight:.0f} % of the weight: {member.why}."
            for member, weight in zip(model.members, model.weights.tolist(), strict=True)
        ]
        best = max(model.board, key=lambda entry: entry.density)
        alone = "one model speaks almost alone" if model.weights.max() > _CLEAR else "several models share the answer"
        judged = f"{len(model.plan)} candidates were judged by rows that they had not seen; {alone}."
        return "\n".join([judged, *lines, f"The best single candidate is {best.name}."])

    @property
    def kernel_(self) -> Any:
        """A stack has none of its own."""
        raise NoAttributeError("a stack has no kernel_: its members have, fitted_.members[0].fitted.module.kernel")

    @property
    def hyperparameters_(self) -> HyperparameterTable:
        """A stack has none of its own."""
        raise NoAttributeError("a stack has no hyperparameters_: leaderboard_ and explain() tell what it is made of")


@dataclass(eq=False, repr=False)
class StrataRegressor(Stacked, Regressor):
    """Regression by the best mixture of processes and trees that a time allows.

    Candidates differ in kernel, noise, scale of columns and target, and some are boosted trees. Each is judged by the
    density of rows that it has not seen; the mixture of at most five that is best there answers every question.

    Targets that are counts get probabilities of whole numbers, so ``log_density`` is a log probability. Counts are
    whole numbers from 0 on, of at least three values, that repeat (twice on average) and have no common divisor, with a
    mean of at most 30 and a least value below their range. Years, ids, most prices in cents, and 0 and 1 are none.

    Arguments:
        time_limit: seconds that a fit may take; None for no limit.
        plan: names of candidates, as ``plan_`` of an earlier fit has them: these run, and no clock decides.
        order: the column, by its name or number, that tells which rows are later, where new rows will be later than
            all of these: a date, for example. Candidates then learn from earlier rows and are judged by later ones.
        targets: "counts" or "numbers"; "auto" recognises counts, and says so where ``verbose`` is set.
        missing: inputs that are NaN: "impute" fills them with what is expected, and averages predictions over what
            they may be; "raise" refuses them.
        texts: names of the columns of text that are compared by their n-grams and words; "auto" means those most of
            whose values differ. Others are categories.
        standardise, categorical, encoding, device, random_state, verbose: as in :class:`GPRegressor`.

    After ``fit``: ``leaderboard_`` (a data frame), ``explain()``, ``plan_``.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(0, 6, (60, 1))
    >>> model = StrataRegressor(plan=["Matérn 5/2, long tails", "squared exponential"], random_state=0)
    >>> model = model.fit(X, np.sin(X[:, 0]) + rng.normal(0, 0.1, 60))
    >>> mean, std = model.predict([[1.5]], return_std=True)
    >>> round(float(mean[0]), 1), len(model.leaderboard_)
    (1.0, 2)
    """

    time_limit: Positive | None = 60.0
    _: KW_ONLY
    plan: Sequence[str] | None = None
    order: str | int | None = None
    targets: Literal["auto", "counts", "numbers"] = "auto"
    missing: Missing = "impute"
    texts: Any = "auto"
    several_targets: ClassVar[bool] = False
    classifier: ClassVar[str] = "StrataClassifier"

    def _is_scalable(self, targets: Float[np.ndarray, "n p"], likelihood: Likelihood | None) -> bool:
        return not self._counted(targets[:, 0])

    def _counted(self, y: Float[np.ndarray, " n"]) -> bool:
        """Whether targets are read as counts."""
        if self.targets == "counts" and ((y < 0) | (y != np.floor(y))).any():
            raise InputError("targets='counts' needs whole numbers from 0 on: take 'numbers', or 'auto'")
        return self.targets == "counts" or (self.targets == "auto" and are_counts(y))

    def _recipe(self, rows: Rows) -> Recipe:
        if self._counted(rows.data.y[:, 0].numpy()):
            self._say("targets are counts: probabilities of whole numbers (targets='numbers' for densities)")
            return StackRecipe(self.time_limit, AS_COUNTS, self.plan, True, self._order(rows))
        zero, one = ((bound - self.scale_.mean[0]) / self.scale_.scale[0] for bound in (0.0, 1.0))
        low = float(zero) if (rows.data.y > zero + 1e-9).all() else -np.inf
        high = float(one) if low > -np.inf and (rows.data.y < one - 1e-9).all() else np.inf
        return StackRecipe(self.time_limit, (low, high), self.plan, order=self._order(rows))


@dataclass(eq=False, repr=False)
class StrataClassifier(Stacked, Classifier):
    """Classification by the best product of processes, Gaussian classes and trees that a time allows.

    Each candidate is judged by the probability of classes that it has not seen. The answer multiplies the
    probabilities of at most five, raised to powers: ``p(c) ∝ Π_k p_k(c)^(w_k / t_k)``.

    Arguments:
        time_limit, plan, order, missing, texts, standardise, categorical, encoding, device, random_state, verbose: as
            in :class:`StrataRegressor`.

    After ``fit``: ``leaderboard_`` (a data frame), ``explain()``, ``plan_``.

    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(60, 2))
    >>> model = StrataClassifier(plan=["Matérn 5/2"], random_state=0).fit(X, X[:, 0] > 0)
    >>> model.predict([[2.0, 0.0]]).tolist()
    [True]
    """

    time_limit: Positive | None = 60.0
    _: KW_ONLY
    plan: Sequence[str] | None = None
    order: str | int | None = None
    missing: Missing = "impute"
    texts: Any = "auto"
    classifier: ClassVar[str] = "StrataClassifier"

    def _recipe(self, rows: Rows) -> Recipe:
        return StackRecipe(self.time_limit, plan=self.plan, order=self._order(rows))
