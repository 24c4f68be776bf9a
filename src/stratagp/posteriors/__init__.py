"""Posteriors ``q(v)``: beliefs about the whitened inducing values of latent functions, independent of any kernel."""

from stratagp.posteriors.base import Posterior as Posterior
from stratagp.posteriors.delta import Delta as Delta
from stratagp.posteriors.diagonal import DiagonalGaussian as DiagonalGaussian
from stratagp.posteriors.gaussian import FullGaussian as FullGaussian
from stratagp.posteriors.kronecker import KroneckerGaussian as KroneckerGaussian
from stratagp.posteriors.mixture import MixturePosterior as MixturePosterior
