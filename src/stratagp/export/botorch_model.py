"""A fitted process as a model of BoTorch: posteriors of batches with gradients, fantasies, several outputs."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from botorch.models.model import FantasizeMixin, Model
from botorch.posteriors.gpytorch import GPyTorchPosterior
from gpytorch.distributions import MultitaskMultivariateNormal, MultivariateNormal
from jaxtyping import Float
from torch import Tensor

from stratagp.errors import InputError
from stratagp.linalg import cholesky
from stratagp.models.fitted_process import ExactModel, ProcessModel, SparseModel, VecchiaModel
from stratagp.models.target_posterior import TargetPosterior
from stratagp.models.vecchia import VecchiaPosterior

_ROWS = 256  # of all batches together, whose covariance is computed at once


class Seen(NamedTuple):
    """Observations that came after the fit: points, targets and the variances of their noise."""

    x: Float[Tensor, "*b r d"]
    y: Float[Tensor, "*f r m"]
    noise: Float[Tensor, "*f r m"]


class FittedModel(Model, FantasizeMixin):
    """What a fitted :class:`~stratagp.GPRegressor` says, asked in the manner of BoTorch.

    Points and targets are in the user's units, so neither needs a transform of BoTorch's. The outputs of one regressor
    are independent; ``botorch.models.model.ModelList`` joins regressors that have different rows. Observations by
    ``condition_on_observations`` and fantasies cost O(r³) for r of them, beside the answers about their points;
    ``gp.update`` is for rows that stay. Draws of the hyperparameters become one Gaussian with their moments.

    Arguments:
        gp: fitted on columns of numbers, with inference "exact", "sparse" or "vecchia" and independent outputs.

    >>> from stratagp import GPRegressor
    >>> x = torch.linspace(0, 6, 20, dtype=torch.float64)[:, None]
    >>> gp = GPRegressor(max_iterations=20, n_restarts=0).fit(x, x[:, 0].sin())
    >>> posterior = gp.to_botorch().posterior(torch.rand(5, 3, 1, dtype=torch.float64))  # 5 batches of 3 points
    >>> posterior.mean.shape, posterior.distribution.covariance_matrix.shape
    (torch.Size([5, 3, 1]), torch.Size([5, 3, 3]))
    """

    likelihood: Any = None  # fantasies ask for its class
    _supports_cache_root = False

    def __init__(self, gp: Any) -> None:
        super().__init__()
        fitted, inputs = gp.fitted_, gp.inputs_
        if not isinstance(fitted, (ExactModel, SparseModel, VecchiaModel)):
            raise InputError(
                "to_botorch needs inference 'exact', 'sparse' or 'vecchia', independent outputs and noise that does "
                "not vary: refit with these"
            )
        if inputs.objects or inputs.encoder is not None:
            raise InputError("to_botorch needs columns of numbers: encode categories and dates yourself, and fit again")
        self.columns, self.centre, self.unit = gp.n_features_in_, inputs.centre, inputs.scale
        self.draws = _without_gradients(fitted)
        self.shift, self.scale = (torch.from_numpy(part) for part in (gp.scale_.mean, gp.scale_.scale))
        self.outputs = list(range(len(self.shift)))
        self.seen: Seen | None = None

    @property
    def num_outputs(self) -> int:
        """How many targets."""
        return len(self.outputs)

    @property
    def batch_shape(self) -> torch.Size:
        """That of the fantasies; none before there are any."""
        if self.seen is None:
            return torch.Size([])
        return torch.broadcast_shapes(self.seen.x.shape[:-2], self.seen.y.shape[:-2])

    def posterior(
        self,
        X: Tensor,
        output_indices: list[int] | None = None,
        observation_noise: bool | Tensor = False,
        posterior_transform: Any = None,
    ) -> Any:
        """The joint distribution of the functions at the points of each batch, ``b q d``; gradients flow to ``X``.

        Arguments:
            output_indices: which outputs; all if None.
            observation_noise: whether to ask about observations, or the variances of their noise.
            posterior_transform: of BoTorch, applied to the result.
        """
        if X.shape[-1] != self.columns:
            raise InputError(f"X has {X.shape[-1]} columns, but the model was fitted on {self.columns}")
        chosen = range(self.num_outputs) if output_indices is None else output_indices
        normals = []
        for place in chosen:
            mean, cov = self._function(X.to(torch.float64), place)
            if observation_noise is not False:
                given = observation_noise[..., place] if isinstance(observation_noise, Tensor) else self.noise[place]
                cov = cov + torch.diag_embed(given.expand(mean.shape))
            normals.append(MultivariateNormal(mean, cov))
        joint = normals[0] if len(normals) == 1 else MultitaskMultivariateNormal.from_independent_mvns(normals)
        found = GPyTorchPosterior(joint)
        return found if posterior_transform is None else posterior_transform(found)

    def condition_on_observations(self, X: Tensor, Y: Tensor, noise: Tensor | None = None, **_: Any) -> FittedModel:
        """A model that has seen more: points ``b r d`` and targets ``b r m``, or ``f b r m`` for f fantasies.

        ``noise`` are variances; left out, they are those of new observations.
        """
        x, y = X.to(torch.float64), Y.to(torch.float64)
        if y.shape[-1] != self.num_outputs or y.shape[-2] != x.shape[-2]:
            raise InputError(
                f"Y must have {x.shape[-2]} rows and {self.num_outputs} columns, got shape {tuple(y.shape)}"
            )
        level = (self.noise if noise is None else noise.to(torch.float64)).expand(y.shape)
        made = copy.copy(self)
        made.seen = Seen(x, y, level) if self.seen is None else Seen(*map(_joined, self.seen, (x, y, level)))
        return made

    def subset_output(self, idcs: list[int]) -> FittedModel:
        """The model of some of the outputs."""
        made = copy.copy(self)
        made.outputs = [self.outputs[i] for i in idcs]
        if self.seen is not None:
            made.seen = Seen(self.seen.x, self.seen.y[..., idcs], self.seen.noise[..., idcs])
        return made

    @property
    def noise(self) -> Float[Tensor, " m"]:
        """The variance of the noise of each output."""
        each = torch.stack([_noise([targets[j] for targets in self.draws]) for j in self.outputs])
        return each * self.scale[self.outputs] ** 2

    def _function(self, x: Float[Tensor, "*b q d"], place: int) -> tuple[Tensor, Tensor]:
        """Mean ``*b q`` and covariance ``*b q q`` of one function, given what was seen after the fit.

        gain = (C + noise)⁻¹ c,   mean + gainᵀ (y − m),   cov − cᵀ gain
        """
        if self.seen is None:
            return self._fitted(x, place)
        r, y, noise = self.seen.x.shape[-2], self.seen.y[..., place], self.seen.noise[..., place]
        mean, cov = self._fitted(_joined(self.seen.x, x), place)
        cross = cov[..., :r, r:]
        factor = cholesky(cov[..., :r, :r] + torch.diag_embed(noise), "the covariance of new observations")
        gain = torch.cholesky_solve(cross.expand(*factor.shape[:-2], *cross.shape[-2:]), factor)
        given = mean[..., r:] + ((y - mean[..., :r])[..., None, :] @ gain)[..., 0, :]
        left = cov[..., r:, r:] - cross.mT @ gain
        return given, left.expand(*given.shape, x.shape[-2])

    def _fitted(self, x: Float[Tensor, "*b q d"], place: int) -> tuple[Tensor, Tensor]:
        """The same without these, by the law of total covariance over the hyperparameters."""
        j = self.outputs[place]
        points = x if self.centre is None or self.unit is None else (x - self.centre) / self.unit
        batches = points.reshape(-1, *points.shape[-2:])
        each = [_joint(targets[j].process, batches) for targets in self.draws]
        means, mean = torch.stack([own for own, _ in each]), torch.stack([own for own, _ in each]).mean(0)
        gaps = means - mean
        cov = torch.stack([own for _, own in each]).mean(0) + torch.einsum("sbq,sbp->bqp", gaps, gaps) / len(each)
        scale = self.scale[j]
        shape = x.shape[:-1]
        return (mean * scale + self.shift[j]).reshape(shape), (cov * scale**2).reshape(*shape, shape[-1])


def _joint(process: Any, x: Float[Tensor, "b q d"]) -> tuple[Float[Tensor, "b q"], Float[Tensor, "b q q"]]:
    """Mean and covariance of the function at the points of each batch."""
    b, q = x.shape[:2]
    if q == 1:
        found = process.marginals(x.flatten(0, 1))
        return found.mean, found.var[:, :, None]
    mean = process.mean(x.flatten(0, 1)).reshape(b, q)
    alone = isinstance(process, VecchiaPosterior)  # whose points see those before them
    parts = []
    for some in x.split(1 if alone else max(1, _ROWS // q)):
        whole = process.covariance(some.flatten(0, 1)).unflatten(0, (-1, q)).unflatten(2, (-1, q))
        parts.append(whole.diagonal(dim1=0, dim2=2).permute(2, 0, 1))
    return mean, torch.cat(parts)


def _joined(one: Tensor, other: Tensor) -> Tensor:
    """Two sets of rows as one, for each batch."""
    shape = torch.broadcast_shapes(one.shape[:-2], other.shape[:-2])
    return torch.cat([part.expand(*shape, *part.shape[-2:]) for part in (one, other)], -2)


def _noise(draws: Sequence[TargetPosterior]) -> Float[Tensor, ""]:
    """The average noise variance of one target over draws of the hyperparameters."""
    return torch.stack([target.noise for target in draws if target.noise is not None]).mean()


def _without_gradients(model: ProcessModel) -> list[list[TargetPosterior]]:
    """Posteriors that share the factors of the model, and whose values need no gradients."""
    return [
        [
            replace(each, process=replace(each.process, prior=copy.deepcopy(each.process.prior).requires_grad_(False)))
            for each in targets
        ]
        for targets in model.draws
    ]
