"""Free coordinates: trainable tensors as one vector, and densities over it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.distributions import biject_to, constraints

from stratagp.errors import UnsupportedError
from stratagp.parameterised import Parameterised
from stratagp.parameters import Parameter

Objective = Callable[[], Tensor]


def flat(tensor: Tensor) -> np.ndarray:
    """The numbers of a tensor as a vector of doubles."""
    return tensor.detach().double().cpu().numpy().ravel()


def gather(parameters: list[nn.Parameter]) -> np.ndarray:
    """All numbers of ``parameters`` in one new vector."""
    return np.concatenate([np.zeros(0), *(flat(p) for p in parameters)])


def scatter(parameters: list[nn.Parameter], theta: np.ndarray) -> None:
    """Set ``parameters`` to the numbers of one vector: the inverse of :func:`gather`."""
    start = 0
    for p in parameters:
        values = torch.from_numpy(theta[start : start + p.numel()].copy())
        p.data.copy_(values.reshape(p.shape))
        start += p.numel()


def learnt(module: nn.Module) -> list[nn.Parameter]:
    """The free coordinates that are learnt, in order; those of positive parameters are logs."""
    return [p for p in module.parameters() if p.requires_grad]


def value_and_gradient(
    objective: Objective, parameters: list[nn.Parameter], theta: np.ndarray
) -> tuple[float, np.ndarray]:
    """The objective and its gradient at ``theta``; sets ``parameters`` to it."""
    scatter(parameters, theta)
    for parameter in parameters:
        parameter.grad = None
    score = objective()
    score.backward()
    gradient = [flat(p.grad if p.grad is not None else torch.zeros_like(p)) for p in parameters]
    return float(score.detach()), np.concatenate(gradient)


def log_joint(log_evidence: Float[Tensor, ""], module: Parameterised) -> Float[Tensor, ""]:
    """``log p(y | θ) + log p(θ) + log |dθ/d raw|``: the posterior density of the free coordinates, up to a constant.

    The density that :func:`~stratagp.training.nuts.sample` needs, because it moves in free coordinates. Parameters
    without a prior count as uniform on their natural scale, so give a prior to each that the data may not determine.
    The upper triangle of a triangular matrix, which is never read, gets a standard normal to keep the density proper.

    >>> from stratagp import ExactGP, kernels as k
    >>> gp, x = ExactGP(k.RBF(2.0), noise=0.5), torch.zeros(1, 1)
    >>> evidence = gp.log_evidence(x, torch.zeros(1))
    >>> (log_joint(evidence, gp) - evidence).exp().item()  # dθ/d raw = θ for each of lengthscale, variance, noise
    1.0...
    """
    free = [item.parameter for item in module.named_values() if item.parameter.trainable]
    padding = sum(unread(p) for p in free)
    return log_evidence + module.log_prior() + log_jacobian(module) - padding


def log_jacobian(module: Parameterised) -> Float[Tensor, ""]:
    """``Σ log |dθ/d raw|`` over the trainable parameters, each counted once.

    ``raw`` for positive values, ``log(high − low) + log σ(raw) + log σ(−raw)`` between bounds; values on a simplex
    count all entries but the last, triangular matrices those on and below the diagonal.
    """
    terms = [log_jacobian_of(item.parameter) for item in module.named_values() if item.parameter.trainable]
    return torch.stack(terms).sum() if terms else torch.zeros((), dtype=torch.float64)


def is_triangular(parameter: Parameter) -> bool:
    """Whether the parameter is a triangular matrix, whose free coordinates above the diagonal are never read."""
    return isinstance(parameter.constraint, type(constraints.lower_cholesky))


def unread(parameter: Parameter) -> Float[Tensor, ""]:
    """Half the squares of coordinates that a triangular matrix never reads, to keep them near zero."""
    return parameter.raw.triu(1).square().sum() / 2 if is_triangular(parameter) else parameter.raw.new_zeros(())


def log_jacobian_of(parameter: Parameter) -> Float[Tensor, ""]:
    """``log |dθ/d raw|`` of one parameter."""
    if is_triangular(parameter):
        return parameter.raw.diagonal(dim1=-2, dim2=-1).sum()
    try:
        slope = biject_to(parameter.constraint).log_abs_det_jacobian(parameter.free, parameter.natural).sum()
        return slope if parameter.unit is None else slope + parameter.unit.log().expand_as(parameter.raw).sum()
    except RuntimeError:  # torch's error for a bijection without a Jacobian
        raise UnsupportedError(
            f"{parameter.name} is constrained to {parameter.constraint}, whose bijection has no known Jacobian: fix "
            "it or use a positive, bounded, simplex, triangular or no constraint"
        ) from None
