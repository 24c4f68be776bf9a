"""The table of cases: for every likelihood what makes it, valid observations, and a belief about the latent values.

A key is the name of the class, with a word or two behind it where a class has several cases.
"""

import torch

from stratagp.likelihoods import (
    GPRN,
    Bernoulli,
    Beta,
    Binomial,
    Exponential,
    Gamma,
    GaussianNoise,
    Heteroscedastic,
    Hurdle,
    LaplaceNoise,
    LogNormal,
    NegativeBinomial,
    Ordinal,
    Poisson,
    RobustMax,
    Softmax,
    StudentT,
    Weibull,
    ZeroInflated,
)
from stratagp.types import Gaussian


def belief(n=5, q=1, seed=0):
    g = torch.Generator().manual_seed(seed)
    mean = torch.randn(n, q, generator=g, dtype=torch.float64)
    return Gaussian(mean, 0.1 + 0.3 * torch.rand(n, q, generator=g, dtype=torch.float64))


def column(*values):
    return torch.tensor(values, dtype=torch.float64)[:, None]


BINARY = column(0.0, 1.0, 1.0, 0.0, 1.0)
REAL = torch.linspace(-1, 1, 5, dtype=torch.float64)[:, None]
PAIRS = torch.linspace(-1, 1, 10, dtype=torch.float64).reshape(5, 2)
LABELS = column(0.0, 2.0, 1.0, 1.0, 0.0)
COUNTS = column(0.0, 1.0, 4.0, 0.0, 12.0)
AMOUNTS = column(3.0, 0.7, 0.1, 2.5, 0.4)
TIMES = torch.cat([AMOUNTS, column(1.0, 0.0, 1.0, 1.0, 0.0)], -1)

CASES = {
    "Bernoulli": (Bernoulli, BINARY, belief()),
    "Bernoulli probit": (lambda: Bernoulli("probit"), BINARY, belief()),
    "Beta": (lambda: Beta(6.0), column(0.05, 0.3, 0.5, 0.8, 0.97), belief()),
    "Binomial": (lambda: Binomial(12), COUNTS, belief()),
    "Binomial trials": (lambda: Binomial(8), torch.cat([COUNTS, COUNTS + 3], -1), belief()),
    "Exponential": (Exponential, AMOUNTS, belief()),
    "GPRN": (lambda: GPRN(1, [0.3, 0.5]), PAIRS, belief(q=3)),
    "GPRN two nodes": (lambda: GPRN(2, 0.4), PAIRS, belief(q=6)),
    "Gamma": (lambda: Gamma(3.0), AMOUNTS, belief()),
    "GaussianNoise": (lambda: GaussianNoise(0.3), REAL, belief()),
    "GaussianNoise outputs": (lambda: GaussianNoise([0.3, 0.5]), PAIRS, belief(q=2)),
    "Heteroscedastic": (Heteroscedastic, REAL, belief(q=2)),
    "Heteroscedastic outputs": (Heteroscedastic, PAIRS, belief(q=4)),
    "Hurdle": (lambda: Hurdle(Poisson(), 0.3), COUNTS, belief()),
    "Hurdle clustered": (lambda: Hurdle(NegativeBinomial(0.4, 2.0)), torch.cat([COUNTS, AMOUNTS], -1), belief()),
    "LaplaceNoise": (lambda: LaplaceNoise(0.4), REAL, belief()),
    "LaplaceNoise outputs": (lambda: LaplaceNoise([0.4, 0.6]), PAIRS, belief(q=2)),
    "LogNormal": (lambda: LogNormal(0.5), AMOUNTS, belief()),
    "LogNormal censored": (lambda: LogNormal(0.5), TIMES, belief()),
    "NegativeBinomial": (lambda: NegativeBinomial(0.4), COUNTS, belief()),
    "NegativeBinomial exposure": (lambda: NegativeBinomial(0.4, 2.0), torch.cat([COUNTS, AMOUNTS], -1), belief()),
    "Ordinal": (lambda: Ordinal(3, cuts=[-0.4, 0.5]), LABELS, belief()),
    "Ordinal logit": (lambda: Ordinal(3, cuts=[-0.4, 0.5], link="logit"), LABELS, belief()),
    "Poisson": (Poisson, COUNTS, belief()),
    "Poisson exposure": (lambda: Poisson(3.0), torch.cat([COUNTS, AMOUNTS], -1), belief()),
    "RobustMax": (lambda: RobustMax(0.05), LABELS, belief(q=3)),
    "RobustMax two classes": (lambda: RobustMax(0.05), BINARY, belief(q=2)),
    "Softmax": (Softmax, LABELS, belief(q=3)),
    "Softmax two classes": (Softmax, BINARY, belief(q=2)),
    "StudentT": (lambda: StudentT(0.4, dof=5.0), REAL, belief()),
    "StudentT outputs": (lambda: StudentT([0.4, 0.6], dof=5.0), PAIRS, belief(q=2)),
    "Weibull": (lambda: Weibull(1.7), AMOUNTS, belief()),
    "Weibull censored": (lambda: Weibull(1.7), TIMES, belief()),
    "ZeroInflated": (lambda: ZeroInflated(Poisson(), 0.3), COUNTS, belief()),
    "ZeroInflated clustered": (
        lambda: ZeroInflated(NegativeBinomial(0.4, 2.0)),
        torch.cat([COUNTS, AMOUNTS], -1),
        belief(),
    ),
}
