"""Posteriors ``q(v)``: beliefs about the whitened inducing values of latent functions. They know no kernel."""

from stratagp.posteriors.base import Posterior as Posterior
from stratagp.posteriors.gaussian import FullGaussian as FullGaussian
