"""What recipes that learn by mini-batches share: rows held out, how long training lasts, what it reads."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import one_hot

from stratagp.kernels import Kernel, Stationary
from stratagp.likelihoods import Likelihood
from stratagp.models.chain import Chain
from stratagp.recipes.base import Data, FitContext, Rows
from stratagp.recipes.options import BatchOptions
from stratagp.training.inducing_points import kmeans_points
from stratagp.training.start import spreads

_LEAST_PATIENCE, _SCORE_STEPS = 100, 20  # steps
_LEAST_SPREAD = 1e-4  # of a column as a share of its size, for single precision


@dataclass(frozen=True)
class Batches:
    """The rows of one fit: what training reads, what is held out, and how long it lasts.

    Arguments:
        data: rows to train on, or a sample of them.
        test: rows held out.
    """

    rows: Rows
    settings: BatchOptions
    context: FitContext
    data: Data
    test: Data

    @classmethod
    def of(cls, rows: Rows, settings: BatchOptions, context: FitContext, generator: torch.Generator) -> Batches:
        """Hold rows out, unless that was done before."""
        data = rows.data
        if rows.stream is not None:
            held = data.take(torch.arange(0)) if rows.held_out is None else rows.held_out
            return cls(rows, settings, context, data, replace(held, x=held.x.to(data.x)))
        labels = data.y[:, 0] if rows.n_classes else None
        held_rows, kept = split(len(data), settings.validation, generator, labels)
        return cls(rows, settings, context, data.take(kept), data.take(held_rows))

    @property
    def source(self) -> tuple[Any, Any]:
        """What training reads: the rows themselves, or the stream that they are a sample of."""
        return (self.data.x, self.data.y) if self.rows.stream is None else (self.rows.stream, None)

    @property
    def total(self) -> int:
        """How many rows training sees."""
        return len(self.data) if self.rows.stream is None else self.rows.total

    @property
    def are_few(self) -> bool:
        """Whether the usual number of epochs makes fewer steps than ``min_steps``."""
        count, settings = self.total, self.settings
        return settings.usual_epochs * (count // min(settings.batch_size, count)) < settings.min_steps

    def length(self, what: str = "", epochs: int | None = None, usual: int | None = None) -> dict[str, Any]:
        """Batch size, epochs, patience and scores of a training.

        Arguments:
            epochs: how many, where it is not the options that say.
            usual: how many at least, where neither says.
        """
        count = self.total
        size, patience = min(self.settings.batch_size, count), self.settings.patience
        if patience is not None:
            patience = max(patience, -(-_LEAST_PATIENCE * size // count))
        epochs = self.settings.epochs_for(count, usual) if epochs is None else epochs
        steps = epochs * (count // size)
        self.context.log(f"{what}{steps} step{'s' * (steps != 1)} in {epochs} epoch{'s' * (epochs != 1)}")
        return {
            "batch_size": size,
            "epochs": epochs,
            "patience": patience,
            "score_steps": _SCORE_STEPS,
            "checkpoint": self.context.checkpoint,
            "progress": self.context.progress,
        }

    def score(self, chain: Chain) -> Callable[[], float] | None:
        """How well held-out rows are predicted, as their mean log density; None where there are none."""
        if not len(self.test):
            return None
        return lambda: float(chain.log_predictive(self.test.x, self.test.y).double().mean())


def split(n: int, share: float, generator: torch.Generator, labels: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Which of ``n`` rows are held out, and which are kept; with ``labels``, a share of each, and never all of one.

    >>> held, kept = split(10, 0.2, torch.Generator().manual_seed(0))
    >>> len(held), len(kept)
    (2, 8)
    >>> labels = torch.tensor([0] * 9 + [1])
    >>> 9 in split(10, 0.4, torch.Generator().manual_seed(0), labels)[1]  # the only row of its class
    True
    """
    order = torch.randperm(n, generator=generator)
    if labels is None:
        taken = [order[: min(max(1, round(share * n)), n - 1)]]
    else:
        own = [order[labels[order] == label] for label in labels.unique()]
        taken = [rows[: min(round(share * len(rows)), len(rows) - 1)] for rows in own]
        if not any(map(len, taken)):
            most = max(own, key=len)
            taken = [most[: min(1, len(most) - 1)]]
    held = torch.cat(taken).sort().values if share else order[:0]
    kept = torch.ones(n, dtype=torch.bool)
    kept[held] = False
    return held, kept.nonzero()[:, 0]


def warn_of_rounding(x: Float[Tensor, "n d"], columns: list[str], remedy: str) -> None:
    """Warn of columns that vary too little, beside their size, for single precision."""
    spread = x.std(0, correction=0)
    lost = (spread > 0) & (spread < _LEAST_SPREAD * x.abs().amax(0))
    if lost.any():
        names = ", ".join(repr(columns[i]) for i in lost.nonzero()[:5, 0].tolist())
        warnings.warn(
            f"single precision rounds {names}, which varies by less than {_LEAST_SPREAD:g} of its size: take {remedy}",
            stacklevel=6,
        )


def refuse_bad_targets(likelihood: Likelihood, y: Tensor, outputs: int) -> None:
    """Let a likelihood say what is wrong with targets ``n p``."""
    with torch.no_grad():
        likelihood.log_prob(y, torch.zeros(len(y), likelihood.functions(outputs)).double())


def outputs_of(rows: Rows, likelihood: Likelihood) -> int:
    """How many columns of observations the likelihood is asked about: targets, or scores of classes."""
    if not rows.n_classes:
        return rows.data.y.shape[1]
    return 1 if likelihood.unwrapped.one_score else rows.n_classes


def as_numbers(y: Tensor, n_classes: int) -> Tensor:
    """Targets as least squares see them: classes by their indicators."""
    return one_hot(y[:, 0].long()).double() if n_classes else y


def clustered_points(kernel: Kernel, x: Float[Tensor, "n d"], m: int, seed: int) -> Float[Tensor, "m2 d"]:
    """Centres of clusters, in units of the kernel's lengthscales if it has them, else of the spreads of columns."""
    own = isinstance(kernel, Stationary) and kernel.functions is None
    lengthscale = kernel.lengthscale.detach() if own else spreads(x)
    scale = lengthscale.expand(x.shape[1])
    return kmeans_points(x / scale, m, seed) * scale
