"""Many candidates, judged by rows that they have not seen, and the best mixture of a few of them."""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from stratagp.errors import InputError, NotPositiveDefiniteError
from stratagp.models.fitted import Fitted
from stratagp.models.stack import Entry, Member, StackModel
from stratagp.models.warps import Chosen, NormalScores, Warp
from stratagp.objectives.stacking import stacked
from stratagp.predictive import Classes
from stratagp.recipes import candidates
from stratagp.recipes.base import FitContext, Recipe, Rows
from stratagp.recipes.candidates import Candidate
from stratagp.recipes.choose import EXACT_ROWS, seconds_of, seconds_of_classes
from stratagp.recipes.folds import FOLDS, MANY_ROWS, folds_of
from stratagp.recipes.judging import WIDTHS, mean_density, scores
from stratagp.recipes.pooling import pool

_LEAST_ROWS = 4
_FOLD_ROWS = MANY_ROWS  # up to which every row is held out once; above, some rows are
_MOST_HELD = 3000  # rows that are held out where there are more: a fifth, at most so many
_SCREENED = 800  # rows of the first trial of processes where there are more
_SCREENED_VALUES = 2000  # latent values of that trial: fewer rows where classes are many
_PROMOTED = 4  # processes that see all rows after the trial
_FAILURES = (NotPositiveDefiniteError, ValueError, RuntimeError, MemoryError)  # InputError is a ValueError
_TRIED = 0.3  # of the time limit: no first trial on few rows begins after that
_SPENT = 0.9  # of the time limit: no candidate begins that would end after it, with what members learn once more
_LONGER = 1.4  # times as long as an exact process with noise of one level
_OF_FEW = ", few rows"  # after the name of a process that time did not allow to learn from more


@dataclass(frozen=True)
class StackRecipe(Recipe):
    """Try candidates, judge them by held-out density, and mix the best.

    Up to 2,000 rows each candidate learns five times, each time without a fifth of the rows, which it then predicts.
    Above, one fifth of the rows (3,000 at most) is held out, and processes are tried on 800 rows first. Rows that have
    an order are held out as later rows are met: those of a fold are predicted from earlier rows alone; those of a group
    are held out together. Weights maximise the density of all rows that were held out, of a sum of densities or of a
    product of probabilities; members then learn from all rows, from where they ended.

    Arguments:
        seconds: that all this may take; None for no limit.
        support: what standardised targets lie between: an end is infinite where no bound is known.
        plan: names of candidates to run, in this order; None to run all that fit into the time.
        counts: whether targets are counts, not standardised: candidates are judged by probabilities of whole numbers.
        order: the column that tells which rows are later, where new rows will be later than all; None if rows have no
            order.
    """

    seconds: float | None = None
    support: tuple[float, float] = candidates.ANYWHERE
    plan: Sequence[str] | None = None
    counts: bool = False
    order: int | None = None

    def fit(self, rows: Rows, context: FitContext) -> StackModel:
        """Judge, weight, and learn from all rows."""
        order = None if self.order is None else rows.data.x[:, self.order]
        rows = replace(rows, data=replace(rows.data, order=order), filled=None)
        trial = _Trial(rows, context, self.seconds, self.plan)
        trial.run(self._candidates(rows))
        weights, widths = trial.mixed()
        chosen = [int(k) for k in np.argsort(-weights) if weights[k] > 0]
        members = []
        for k in chosen:
            judged = trial.judged[k]
            context.log(f"{judged.name}: weight {weights[k]:.2f}{'' if judged.of_few else ', learns from all rows'}")
            members.append(replace(trial.final(judged), width=widths[k] if judged.candidate.narrows else 1.0))
        shares = torch.from_numpy(weights[chosen])
        about = rows.data.x, trial.board(weights), trial.names, rows.columns
        return StackModel(members, shares / shares.sum(), *about)

    def again(self, before: Fitted, rows: Rows, context: FitContext) -> StackModel:
        """The members alone learn from these rows; who they are, their weights and the leaderboard stay."""
        if not isinstance(before, StackModel):
            return self.fit(rows, context)
        named = replace(self, plan=[member.name for member in before.members])
        try:
            found = named._candidates(rows)
        except InputError:  # of rows that are counts no more, for example
            return self.fit(rows, context)
        trial, members = _Trial(replace(rows, filled=None), context, None, None), []
        for candidate, member in zip(found, before.members, strict=True):
            context.log(f"{member.name}: learns from all rows")
            few = trial.few() if member.name.endswith(_OF_FEW) else torch.arange(len(rows.data))
            learnt = trial.member(candidate, few, member if before.columns == rows.columns else None)
            members.append(replace(learnt, name=member.name, width=member.width))
        return StackModel(members, before.weights, rows.data.x, before.board, before.plan, rows.columns)

    def _candidates(self, rows: Rows) -> list[Candidate]:
        data = rows.data
        if data.y.shape[1] > 1:
            raise InputError("a stack learns one target: fit one model for each")
        every = self.plan is not None
        if rows.n_classes:
            found = candidates.of_classes(data.x, rows.n_classes, every)
        else:
            of = candidates.of_counts if self.counts else candidates.of_numbers
            found = of(data.x, data.y[:, 0], self.support, every)
            found += candidates.of_later(self.order, len(data))
        if self.plan is None:
            return found
        named = {each.name: each for each in found}
        if len(data) > _FOLD_ROWS:
            named |= {each.name + _OF_FEW: each for each in found if each.process}
        unknown = [name for name in self.plan if name not in named]
        if unknown:
            raise InputError(f"plan has {unknown[0]!r}; for these rows there are {', '.join(map(repr, named))}")
        return [named[name] for name in self.plan]


@dataclass
class _Judged:
    """A candidate, what it told held-out rows, and the last model that it was; ``of_few``: for want of time."""

    candidate: Candidate
    told: Float[np.ndarray, "h w"]
    density: float
    error: float
    member: Member
    seconds: float
    rows: int
    of_few: bool = False

    @property
    def name(self) -> str:
        """In the leaderboard and in plans."""
        return self.candidate.name + _OF_FEW * self.of_few


class _Found(NamedTuple):
    """The last model of a candidate, and what each row was told and its error, zero where it was not held out."""

    member: Member
    told: Float[Tensor, "n w"]
    wrong: Float[Tensor, " n"]
    rows: int


@dataclass
class _Trial:
    """Candidates on the same rows, with the same rows held out."""

    rows: Rows
    context: FitContext
    seconds: float | None
    plan: Sequence[str] | None
    judged: list[_Judged] = field(default_factory=list)
    screened: list[_Judged] = field(default_factory=list)
    failed: list[Candidate] = field(default_factory=list)
    trouble: str = ""

    def __post_init__(self) -> None:
        self.start, n = time.monotonic(), len(self.rows.data)
        if n < _LEAST_ROWS:
            raise InputError(
                f"n_samples = {n}: a stack holds rows out and needs {_LEAST_ROWS} at least; take GPRegressor or "
                "GPClassifier"
            )
        folds = folds_of(self.rows.data, self.rows.n_classes, self.context.seed)
        if not folds.told.any():
            raise InputError("every class has a single row, so that none can be held out: give more rows")
        folds = folds if n <= _FOLD_ROWS else folds.last(_MOST_HELD)
        self.held = [_where(folds.held(fold)) for fold in folds.numbers]
        self.seen = [_where(folds.seen(fold)) for fold in folds.numbers]
        self.many, self.every = n > _FOLD_ROWS, torch.cat(self.held).sort().values
        self.codes = self.rows.data.codes.numpy()[self.every] if self.rows.n_classes else None

    @property
    def names(self) -> list[str]:
        """The candidates that were judged, in their order."""
        return [each.name for each in self.judged]

    def mixed(self) -> tuple[Float[np.ndarray, " k"], list[float]]:
        """The weight of each candidate, and the factor of its spread."""
        if self.codes is not None:
            return pool([Classes(each.told) for each in self.judged], self.codes)
        weights, width = stacked(np.stack([each.told for each in self.judged], 1), WIDTHS)
        return weights, [width] * len(weights)

    def run(self, found: list[Candidate]) -> None:
        """Judge candidates, as many as fit into the time; at least one."""
        if self.plan is None and self.many:
            found = self._promoted(found)
        for i, candidate in enumerate(found):
            if self._is_late(candidate) or (self.plan is not None and self.plan[i].endswith(_OF_FEW)):
                judged = self._of_few(candidate)
            else:
                self.context.log(f"candidate {i + 1} of {len(found)}: {candidate.name}{self._so_far()}")
                judged = self._attempt(candidate)
            if judged is not None:
                self.judged.append(judged)
        if not self.judged:
            raise InputError(f"no candidate could learn from these rows; the last one says: {self.trouble}")

    def _promoted(self, found: list[Candidate]) -> list[Candidate]:
        """Trees, and the processes that predict best after few rows; the best process is tried right after boosting."""
        for candidate in (each for each in found if each.process):
            self._screen(candidate)
            if self.seconds is not None and time.monotonic() - self.start > _TRIED * self.seconds:
                break
        self.screened.sort(key=lambda each: -each.density)
        trees = [each for each in found if not each.process]
        processes = [each.candidate for each in self.screened[:_PROMOTED]]
        return [*trees[:1], *processes[:1], *trees[1:], *processes[1:]]

    def _screen(self, candidate: Candidate) -> _Judged | None:
        """What a process that learns from few rows says about those held out; None where it cannot, or need not."""
        if not self.many or not candidate.process:
            return None
        known = next((each for each in self.screened if each.candidate is candidate), None)
        if known is not None or candidate in self.failed:
            return known
        judged = self._attempt(candidate, self.few())
        if judged is None:
            self.failed.append(candidate)
        else:
            self.screened.append(judged)
        return judged

    def few(self) -> Int[Tensor, " f"]:
        """A few of the rows that are not held out."""
        train = self.seen[0]
        most = min(_SCREENED, _SCREENED_VALUES // self.rows.n_classes) if self.rows.n_classes > 2 else _SCREENED
        return train[torch.randperm(len(train), generator=self.context.generator())[:most]].sort().values

    def _of_few(self, candidate: Candidate) -> _Judged | None:
        """A process as few rows left it, for want of time."""
        known = self._screen(candidate)
        if known is None:
            self.context.log(f"{candidate.name}: left out, as time runs short")
            return None
        self.context.log(f"{candidate.name}: stays as {known.rows} rows left it, as time runs short")
        member = replace(known.member, name=candidate.name + _OF_FEW)
        return replace(known, member=member, of_few=True)

    def _is_late(self, candidate: Candidate) -> bool:
        """Whether a candidate would end after the time; the first one never is."""
        if self.seconds is None or self.plan is not None or not self.judged:
            return False
        expected, full = self._expected(candidate), [each for each in self.judged if not each.of_few]
        again = self._again(candidate, expected) + sum(self._again(each.candidate, each.seconds) for each in full)
        return time.monotonic() - self.start + expected + again > _SPENT * self.seconds

    def _again(self, candidate: Candidate, seconds: float) -> float:
        """Seconds that a member will learn once more, from all rows, after it took ``seconds`` for all folds."""
        learns_again = candidate.process and len(self.rows.data) <= EXACT_ROWS
        return seconds / len(self.held) if learns_again else 0.0

    def _expected(self, candidate: Candidate) -> float:
        """Seconds that a candidate will take: as long as others of its kind did, or as was measured for such rows."""
        full = [each for each in self.judged if not each.of_few]
        alike = [each.seconds for each in full if each.candidate.process == candidate.process]
        n, columns = self.rows.data.x.shape
        if not alike and candidate.process and self.rows.n_classes:
            long = len(self.held) * seconds_of_classes(n, self.rows.n_classes)
            if long:
                return long
        if alike or not self.many or not candidate.process:
            return max(alike, default=0.0)
        if n <= EXACT_ROWS:
            return _LONGER * seconds_of("exact", n, columns)
        return seconds_of("noise, from few rows", n, columns)

    def _so_far(self) -> str:
        if not self.judged:
            return ""
        best = max(self.judged, key=lambda each: each.density)
        left = "" if self.seconds is None else f", {max(0.0, self.seconds - time.monotonic() + self.start):.0f} s left"
        return f"; best so far {best.candidate.name}, {-best.density:.3f} nats a row{left}"

    def _attempt(self, candidate: Candidate, few: Int[Tensor, " f"] | None = None) -> _Judged | None:
        """What a candidate says about the held-out rows; None where it cannot learn from the others."""
        began, every = time.monotonic(), self.every
        try:
            found = self._told(candidate) if not candidate.process else self._by_folds(candidate, few)
        except _FAILURES as error:
            self.trouble = str(error)
            self.context.log(f"{candidate.name}: left out, {error}")
            return None
        member, told, wrong, learnt = found
        if not bool(told[every].isfinite().all()):
            self.trouble = f"{candidate.name} told rows nothing: numbers overflow, so scale the columns"
            self.context.log(f"{candidate.name}: left out, what it tells is not finite")
            return None
        density = mean_density(told[every].numpy(), self.codes)
        mean = float(wrong[every].mean())
        share = mean if self.rows.n_classes else mean**0.5
        return _Judged(candidate, told[every].numpy(), density, share, member, time.monotonic() - began, learnt)

    def _told(self, candidate: Candidate) -> _Found:
        """A model that learns by folds itself, and knows what it said about rows that it had not seen."""
        data = self.rows.data
        member = self.member(candidate, torch.arange(len(data)), None)
        said = member.held_out()
        assert said is not None
        return _Found(member, *scores(said, data.y), len(data) * (FOLDS - 1) // FOLDS)

    def _by_folds(self, candidate: Candidate, few: Int[Tensor, " f"] | None) -> _Found:
        """A model that learns from all rows but those of a fold, or from few, and predicts the fold."""
        data = self.rows.data
        known = self._screen(candidate) if few is None else None  # learning from more rows begins there
        member = None if known is None else known.member
        told = torch.zeros(len(data), self.rows.n_classes or len(WIDTHS), dtype=torch.float64)
        wrong = torch.zeros(len(data), dtype=torch.float64)
        for fold, seen in zip(self.held, self.seen, strict=True):
            train = seen if few is None else few
            member = self.member(candidate, train, member)
            told[fold], wrong[fold] = scores(member.predictive(data.x[fold]), data.y[fold])
        assert member is not None
        return _Found(member, told, wrong, len(train))

    def member(self, candidate: Candidate, chosen: Tensor, before: Member | None) -> Member:
        """A candidate that has learnt from some rows; from where it ended, if it has learnt before."""
        rows = replace(self.rows, data=self.rows.data.take(chosen))
        inputs = None if candidate.inputs is None else candidate.inputs(rows.data)
        warp = None if candidate.warp is None else candidate.warp(rows.data.y[:, 0].numpy())
        seen = _through(rows, inputs, warp)
        quiet = replace(self.context, log=lambda message: None)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            recipe = candidate.make(seen)
            goes_on = before is not None and _same_columns(before.inputs, inputs)
            fitted = recipe.again(before.fitted, seen, quiet) if before and goes_on else recipe.fit(seen, quiet)
        return Member(candidate.name, candidate.why, fitted, inputs, warp, whole=candidate.whole)

    def final(self, judged: _Judged) -> Member:
        """A member that has learnt from all rows."""
        if judged.of_few or not judged.candidate.process:
            return judged.member
        try:
            return self.member(judged.candidate, torch.arange(len(self.rows.data)), judged.member)
        except _FAILURES as error:
            self.context.log(f"{judged.candidate.name}: stays as it was judged, {error}")
            return judged.member

    def board(self, weights: Float[np.ndarray, " k"]) -> list[Entry]:
        """How all candidates did, the best first; those that saw few rows only come last."""
        full_names = {each.candidate.name for each in self.judged}
        full = [_entry(each, float(weight)) for each, weight in zip(self.judged, weights, strict=True)]
        rest = [_entry(each, 0.0) for each in self.screened if each.candidate.name not in full_names]
        return sorted(full, key=lambda each: -each.density) + rest


def _through(rows: Rows, inputs: NormalScores | Chosen | None, warp: Warp | None) -> Rows:
    """Rows as a member sees them."""
    data = rows.data
    if inputs is not None:
        data = replace(data, x=inputs(data.x))
    if warp is not None:
        data = replace(data, y=torch.from_numpy(warp.forward(data.y.numpy())))
    seen = replace(rows, data=data)
    if not isinstance(inputs, Chosen):
        return seen
    return replace(seen, columns=[], bind=lambda own, default: (own or default).bind(len(inputs.columns)))


def _same_columns(before: NormalScores | Chosen | None, now: NormalScores | Chosen | None) -> bool:
    """Whether a model can go on: one of chosen columns needs the same ones."""
    if not isinstance(before, Chosen) or not isinstance(now, Chosen):
        return True
    return torch.equal(before.columns, now.columns)


def _entry(judged: _Judged, weight: float) -> Entry:
    return Entry(judged.name, judged.density, judged.error, weight, judged.rows, judged.seconds)


def _where(chosen: Bool[np.ndarray, " n"]) -> Int[Tensor, " r"]:
    return torch.from_numpy(np.flatnonzero(chosen))
