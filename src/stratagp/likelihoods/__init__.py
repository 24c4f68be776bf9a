"""Likelihoods ``p(y | f)``: how observations come from function values."""

from stratagp.likelihoods.base import Likelihood as Likelihood
from stratagp.likelihoods.bernoulli import Bernoulli as Bernoulli
from stratagp.likelihoods.gaussian import GaussianNoise as GaussianNoise
from stratagp.likelihoods.softmax import Softmax as Softmax
