"""Increasing functions of a target, and of columns, that make skewed values more normal."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int
from scipy.special import expit, logit, ndtri
from torch import Tensor

_KNOTS = 64  # of the function of a column


@dataclass(frozen=True)
class Log:
    """``g(y) = (log(y − origin) − shift)/scale`` for targets above ``origin``.

    >>> Log.learnt(np.exp([0.0, 1.0, 2.0]), 0.0).forward(np.exp(np.array([1.0]))).tolist()
    [0.0]
    """

    origin: float
    shift: float
    scale: float

    @staticmethod
    def learnt(y: Float[np.ndarray, " n"], origin: float) -> Log:
        """The one that standardises the logs of targets."""
        logs = np.log(y - origin)
        return Log(origin, float(logs.mean()), float(logs.std()) or 1.0)

    @property
    def support(self) -> tuple[float, float]:
        """What targets lie between."""
        return self.origin, np.inf

    def forward(self, y: np.ndarray) -> np.ndarray:
        """``g(y)``."""
        return (np.log(y - self.origin) - self.shift) / self.scale

    def inverse(self, z: np.ndarray) -> np.ndarray:
        """``origin + exp(shift + scale z)``."""
        return self.origin + np.exp(np.minimum(self.shift + self.scale * z, 700.0))

    def log_slope(self, y: np.ndarray) -> np.ndarray:
        """``−log(y − origin) − log scale``."""
        return -np.log(y - self.origin) - np.log(self.scale)


@dataclass(frozen=True)
class Logit:
    """``g(y) = (log(s/(1 − s)) − shift)/scale`` with ``s = (y − low)/(high − low)``: shares between two bounds.

    >>> share = Logit.learnt(np.array([0.2, 0.5, 0.8]), 0.0, 1.0)
    >>> share.inverse(np.array([0.0])).tolist()
    [0.5]
    """

    low: float
    high: float
    shift: float
    scale: float

    @staticmethod
    def learnt(y: Float[np.ndarray, " n"], low: float, high: float) -> Logit:
        """The one that standardises the log odds of targets."""
        odds = logit((y - low) / (high - low))
        return Logit(low, high, float(odds.mean()), float(odds.std()) or 1.0)

    @property
    def support(self) -> tuple[float, float]:
        """What targets lie between."""
        return self.low, self.high

    def forward(self, y: np.ndarray) -> np.ndarray:
        """``g(y)``."""
        return (np.log(y - self.low) - np.log(self.high - y) - self.shift) / self.scale

    def inverse(self, z: np.ndarray) -> np.ndarray:
        """``low + (high − low) σ(shift + scale z)``."""
        return self.low + (self.high - self.low) * expit(self.shift + self.scale * z)

    def log_slope(self, y: np.ndarray) -> np.ndarray:
        """``log(high − low) − log(y − low) − log(high − y) − log scale``."""
        return np.log(self.high - self.low) - np.log(y - self.low) - np.log(self.high - y) - np.log(self.scale)


@dataclass(frozen=True)
class Asinh:
    """``g(y) = (asinh((y − centre)/width) − shift)/scale``: linear in the middle, logs in both tails.

    >>> bent = Asinh.learnt(np.array([-30.0, -1.0, 0.0, 1.0, 30.0]))
    >>> bent.inverse(bent.forward(np.array([7.0]))).round(9).tolist()
    [7.0]
    """

    centre: float
    width: float
    shift: float
    scale: float

    @staticmethod
    def learnt(y: Float[np.ndarray, " n"]) -> Asinh:
        """Centred at the median; half of the interquartile range is the middle."""
        low, centre, high = np.quantile(y, [0.25, 0.5, 0.75])
        width = float(high - low) / 2 or float(y.std()) or 1.0
        bent = np.arcsinh((y - centre) / width)
        return Asinh(float(centre), width, float(bent.mean()), float(bent.std()) or 1.0)

    @property
    def support(self) -> tuple[float, float]:
        """What targets lie between."""
        return -np.inf, np.inf

    def forward(self, y: np.ndarray) -> np.ndarray:
        """``g(y)``."""
        return (np.arcsinh((y - self.centre) / self.width) - self.shift) / self.scale

    def inverse(self, z: np.ndarray) -> np.ndarray:
        """``centre + width sinh(shift + scale z)``."""
        return self.centre + self.width * np.sinh(np.clip(self.shift + self.scale * z, -700.0, 700.0))

    def log_slope(self, y: np.ndarray) -> np.ndarray:
        """``−½ log((y − centre)² + width²) − log scale``."""
        return -0.5 * np.log((y - self.centre) ** 2 + self.width**2) - np.log(self.scale)


@dataclass(frozen=True)
class Standard:
    """``g(y) = (y − shift)/scale``: targets with mean zero and deviation one.

    >>> Standard.learnt(np.array([1.0, 3.0])).forward(np.array([3.0])).tolist()
    [1.0]
    """

    shift: float
    scale: float

    @staticmethod
    def learnt(y: Float[np.ndarray, " n"]) -> Standard:
        """The one that standardises targets."""
        return Standard(float(y.mean()), float(y.std()) or 1.0)

    @property
    def support(self) -> tuple[float, float]:
        """What targets lie between."""
        return -np.inf, np.inf

    def forward(self, y: np.ndarray) -> np.ndarray:
        """``g(y)``."""
        return (y - self.shift) / self.scale

    def inverse(self, z: np.ndarray) -> np.ndarray:
        """``shift + scale z``."""
        return self.shift + self.scale * z

    def log_slope(self, y: np.ndarray) -> np.ndarray:
        """``−log scale``."""
        return np.full_like(y, -np.log(self.scale))


Warp = Log | Logit | Asinh | Standard


@dataclass(frozen=True)
class NormalScores:
    """Columns through increasing functions that make them normal: lines between 64 quantiles, straight beyond.

    A column of few different values stays as it is.

    >>> x = torch.arange(200, dtype=torch.float64)[:, None].exp()
    >>> NormalScores.learnt(x)(x[[100]]).abs().item() < 0.05  # the middle of the column
    True
    """

    knots: Float[Tensor, "k d"]
    scores: Float[Tensor, "k d"]

    @staticmethod
    def learnt(x: Float[Tensor, "n d"]) -> NormalScores:
        """From the quantiles of each column."""
        levels = (torch.arange(_KNOTS, dtype=torch.float64) + 0.5) / _KNOTS
        knots = torch.quantile(x[:: max(1, len(x) // 100_000)], levels.to(x), dim=0)
        scores = torch.from_numpy(ndtri(levels.numpy())).to(x)[:, None].expand(knots.shape).clone()
        for j in range(x.shape[1]):
            if len(knots[:, j].unique()) < _KNOTS // 2:
                knots[:, j] = scores[:, j]  # the identity
        return NormalScores(knots, scores)

    def __call__(self, x: Float[Tensor, "n d"]) -> Float[Tensor, "n d"]:
        """The scores of rows."""
        return torch.stack([_line(x[:, j], self.knots[:, j], self.scores[:, j]) for j in range(x.shape[1])], 1)


@dataclass(frozen=True)
class Chosen:
    """Some of the columns: those that trees find relevant.

    >>> x = torch.rand(100, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    >>> Chosen.learnt(x, x[:, 2], most=1).columns.tolist()
    [2]
    """

    columns: Int[Tensor, " k"]

    @staticmethod
    def learnt(x: Float[Tensor, "n d"], y: Float[Tensor, " n"], most: int) -> Chosen:
        """Columns of more than average importance to extra trees, ``most`` at most."""
        from sklearn.ensemble import ExtraTreesRegressor  # slow to load, and only needed here

        trees = ExtraTreesRegressor(100, min_samples_leaf=3, random_state=0).fit(x.numpy(), y.numpy())
        shares = torch.from_numpy(trees.feature_importances_)
        order = shares.argsort(descending=True)[:most]
        return Chosen(order[shares[order] >= shares.mean()].sort().values)

    def __call__(self, x: Float[Tensor, "n d"]) -> Float[Tensor, "n k"]:
        """The chosen columns of rows."""
        return x[:, self.columns]


def _line(x: Float[Tensor, " n"], knots: Float[Tensor, " k"], scores: Float[Tensor, " k"]) -> Float[Tensor, " n"]:
    """Linear between the points of a curve with rising knots, and on along its ends; of equal knots, their average."""
    places, inverse = knots.unique(return_inverse=True)
    values = torch.zeros_like(places).scatter_reduce(0, inverse, scores, "mean", include_self=False)
    right = torch.searchsorted(places, x.contiguous()).clamp(1, len(places) - 1)
    left = right - 1
    slope = (values[right] - values[left]) / (places[right] - places[left])
    return values[left] + slope * (x - places[left])
