"""Likelihoods ``p(y | f)``: how observations come from function values."""

from stratagp.likelihoods.base import Likelihood as Likelihood
from stratagp.likelihoods.bernoulli import Bernoulli as Bernoulli
from stratagp.likelihoods.beta import Beta as Beta
from stratagp.likelihoods.counts import Binomial as Binomial
from stratagp.likelihoods.counts import NegativeBinomial as NegativeBinomial
from stratagp.likelihoods.counts import Poisson as Poisson
from stratagp.likelihoods.gaussian import GaussianNoise as GaussianNoise
from stratagp.likelihoods.gprn import GPRN as GPRN
from stratagp.likelihoods.heteroscedastic import Heteroscedastic as Heteroscedastic
from stratagp.likelihoods.laplace_noise import LaplaceNoise as LaplaceNoise
from stratagp.likelihoods.mixed import Mixed as Mixed
from stratagp.likelihoods.ordinal import Ordinal as Ordinal
from stratagp.likelihoods.positive import Exponential as Exponential
from stratagp.likelihoods.positive import Gamma as Gamma
from stratagp.likelihoods.robust_max import RobustMax as RobustMax
from stratagp.likelihoods.sampled import Sampled as Sampled
from stratagp.likelihoods.softmax import Softmax as Softmax
from stratagp.likelihoods.student_t import StudentT as StudentT
from stratagp.likelihoods.survival import LogNormal as LogNormal
from stratagp.likelihoods.survival import Weibull as Weibull
from stratagp.likelihoods.zeros import Hurdle as Hurdle
from stratagp.likelihoods.zeros import ZeroInflated as ZeroInflated
