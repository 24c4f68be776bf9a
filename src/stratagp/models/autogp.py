"""AutoGP: sparse variational Gaussian processes for any likelihood (Krauth, Bonilla, Cutajar and Filippone 2016).

``Q`` latent functions, each with its own kernel and inducing points, a posterior that is a mixture of Gaussians,
and one likelihood for all of them:

    q(v) = Σₖ πₖ Πⱼ N(vⱼ; mₖⱼ, Sₖⱼ),        ℒ = Σₙ Σₖ πₖ E log p(yₙ | fₙ) − KL(q ‖ p).

Hyperparameters may be learnt from the leave-one-out density instead, alternating with the bound (Algorithm 1
of the paper) or after it.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from stratagp.errors import InputError
from stratagp.kernels import Kernel
from stratagp.likelihoods import GPRN, Likelihood, Sampled
from stratagp.models.stochastic import StochasticGP
from stratagp.objectives import elbo, leave_one_out, predictive_bound
from stratagp.parameters import real
from stratagp.posteriors import DiagonalGaussian, FullGaussian, MixturePosterior, Posterior
from stratagp.training.batches import Streamed
from stratagp.training.loop import History
from stratagp.training.start import spreads
from stratagp.types import NumbersLike, PointsLike

OBJECTIVES = {"elbo": elbo, "loo": leave_one_out, "ppgpr": predictive_bound}
LOO_PARAMETERS = ("hyper", "all")
_APART = 0.1  # standard deviation of the random functions of a network at the start


def autogp(
    kernel: Kernel,
    z: Float[Tensor, "m d"],
    likelihood: Likelihood,
    outputs: int = 1,
    n_components: int = 1,
    full: bool = True,
    shared: bool = False,
    mean: Any = None,
    n_samples: int | None = None,
    generator: torch.Generator | None = None,
    dtype: torch.dtype = torch.float32,
    learn_points: bool = True,
    sampled: str = "bound",
    entropy: str = "bhattacharyya",
    gradients: str = "pathwise",
) -> StochasticGP:
    """The model of the paper: as many latent functions as ``likelihood`` needs for ``outputs`` target columns.

    Arguments:
        kernel: the covariance function that each function starts from, bound to its columns.
        z: the inducing points that each function starts from.
        n_components: the size K of the mixture.
        full: whether the posterior has full covariance matrices rather than diagonal ones.
        shared: whether all functions share one kernel and one set of inducing points.
        mean: the prior mean of all functions.
        n_samples: samples per row that replace closed forms and quadrature in training; None keeps the latter.
        generator: the source of samples and of the initial means of a mixture.
        learn_points: whether inducing points move.
        sampled, gradients: what to sample, and how gradients come from samples: ``what`` and ``gradients`` of
            :class:`~stratagp.likelihoods.Sampled`.
        entropy: the bound on that of a mixture, as for :class:`~stratagp.posteriors.MixturePosterior`.

    >>> from stratagp import kernels as k
    >>> from stratagp.likelihoods import Softmax
    >>> gp = autogp(k.RBF(1.0, variance=1.0), torch.rand(5, 2), Softmax(), outputs=3, n_components=2)
    >>> gp.belief(torch.zeros(7, 2)).parts.mean.shape
    torch.Size([2, 7, 3])
    """
    q = likelihood.functions(outputs)
    posterior = _posterior(len(z), q, n_components, full, entropy, generator)
    own = q > 1 and not shared
    kernel = copy.deepcopy(kernel)
    kernel = kernel.replicate(q) if own and kernel.functions is None else kernel
    observed = likelihood if n_samples is None else Sampled(likelihood, n_samples, generator, sampled, gradients)
    places = z.expand(q, -1, -1).clone() if own else z
    points = real(places, trainable=learn_points, name="z", unit=spreads(z))  # Adam's steps ignore the units of columns
    gp = StochasticGP(kernel, points, observed, mean, q, posterior=posterior, dtype=dtype)
    if isinstance(likelihood, GPRN):
        _leave_saddle(gp, likelihood, generator)
    return gp


@dataclass(frozen=True)
class Phase:
    """One phase of training: its objective, its number of epochs, and what it trains.

    ``parameters`` is "all", "hyper" (kernels, likelihood and inducing points) or "posterior".

    >>> Phase("elbo", 10).parameters
    'all'
    """

    objective: str
    epochs: int
    parameters: str = "all"


def phases(objective: str, epochs: int, loo_parameters: str = "hyper", phase_epochs: int | None = None) -> list[Phase]:
    """The phases in which ``epochs`` of training by an objective are spent.

    "elbo" and "ppgpr" are one phase. "loo" with ``loo_parameters="hyper"`` is Algorithm 1: phases of the bound for all
    parameters alternate with phases of the leave-one-out density for hyperparameters and inducing points. Each takes
    ``phase_epochs`` (by default a quarter of all), and the last leave-one-out phase also takes what is left over. A
    final phase of the bound trains the posterior alone, which would otherwise lag behind its hyperparameters. With
    "all", after one phase of the bound, the leave-one-out density trains everything to the end. Nothing then holds the
    posterior near its prior: this suits many rows per inducing point and overfits few.

    >>> [(p.objective, p.epochs, p.parameters) for p in phases("loo", 100, "hyper", 30)]
    [('elbo', 30, 'all'), ('loo', 40, 'hyper'), ('elbo', 30, 'posterior')]
    >>> [(p.objective, p.epochs, p.parameters) for p in phases("loo", 100, "all")]
    [('elbo', 25, 'all'), ('loo', 75, 'all')]
    """
    if objective not in OBJECTIVES:
        raise InputError(f"objective must be one of {', '.join(OBJECTIVES)}, got {objective!r}")
    if loo_parameters not in LOO_PARAMETERS:
        raise InputError(f"loo_parameters must be one of {', '.join(LOO_PARAMETERS)}, got {loo_parameters!r}")
    if objective != "loo":
        return [Phase(objective, epochs)]
    each = max(1, epochs // 4 if phase_epochs is None else phase_epochs)
    last = 0 if loo_parameters == "all" else each
    if epochs <= each + last:
        raise InputError(
            f"{epochs} epochs leave none for leave-one-out after phases of {each}: raise epochs or lower phase_epochs"
        )
    if loo_parameters == "all":
        return [Phase("elbo", each), Phase("loo", epochs - each)]
    pairs = max(1, (epochs - last) // (2 * each))
    turns = [Phase("elbo", each, "all"), Phase("loo", each, "hyper")] * pairs
    turns[-1] = Phase("loo", epochs - last - (2 * pairs - 1) * each, "hyper")
    return [*turns, Phase("elbo", last, "posterior")]


def fit_phases(
    gp: StochasticGP, x: PointsLike | Streamed, y: NumbersLike | None, plan: list[Phase], **options: Any
) -> list[History]:
    """Train through a plan and return one history per phase; ``options`` go to :meth:`StochasticGP.fit` in each.

    The log density of parameters with priors is added to every objective. ``seconds`` limits all phases together. A
    phase that is interrupted or runs out of time is the last.

    >>> from stratagp import kernels as k
    >>> from stratagp.likelihoods import GaussianNoise
    >>> x = torch.linspace(0, 6, 60)[:, None]
    >>> gp = autogp(k.RBF(1.0, variance=1.0), x[::10], GaussianNoise(0.1))
    >>> [history.steps for history in fit_phases(gp, x, x.sin(), [Phase("elbo", 2)], batch_size=30)]
    [4]
    """
    histories: list[History] = []
    limit = options.pop("seconds", None)
    if limit is not None and not limit > 0:
        raise InputError(f"seconds must be positive, got {limit}: omit it for no limit")
    for phase in plan:
        if phase.epochs == 0:
            continue
        history = gp.fit(
            x,
            y,
            OBJECTIVES[phase.objective],
            penalty=gp.log_prior if gp.has_priors else None,
            epochs=phase.epochs,
            parameters=_moving(gp, phase.parameters),
            seconds=None if limit is None else max(1e-3, limit - sum(history.seconds for history in histories)),
            **options,
        )
        histories.append(history)
        if history.cut_short:
            break
    return histories


def _moving(gp: StochasticGP, what: str) -> list[nn.Parameter] | None:
    if what == "all":
        return None
    own = list(gp.layer.posterior.parameters())
    if what == "posterior":
        return own
    return [p for p in gp.parameters() if p.requires_grad and not any(p is each for each in own)]


def _posterior(
    m: int, q: int, n_components: int, full: bool, entropy: str, generator: torch.Generator | None
) -> Posterior:
    if n_components > 1:
        return MixturePosterior(m, q, n_components, full, entropy, generator)
    return (FullGaussian if full else DiagonalGaussian)(m, q)


def _leave_saddle(gp: StochasticGP, likelihood: GPRN, generator: torch.Generator | None) -> None:
    """Start a network's nodes at one and its weights at random: with both at zero, every gradient is zero.

    With a node that is one everywhere, the weights are independent processes of the outputs. Nodes after the first are
    random too, because nodes that start equal stay equal.
    """
    k = likelihood.n_nodes
    posterior: Any = gp.layer.posterior
    mean = posterior.components.mean if isinstance(posterior, MixturePosterior) else posterior.mean
    with torch.no_grad():
        q, m = posterior.shape
        whitened = gp.layer.whitener().sum(-1)  # for a function that is one everywhere
        by_component = mean.data.reshape(-1, q, m)
        random = torch.randn(by_component.shape, generator=generator, dtype=torch.float64).to(mean)
        by_component.copy_(_APART * random)
        by_component[:, q - k] = (whitened[q - k] if whitened.dim() == 2 else whitened).to(mean)
