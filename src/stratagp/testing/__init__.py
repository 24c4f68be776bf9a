"""Checks for parts of models, ours and yours: pass a part, and the check asserts what it must satisfy."""

from stratagp.testing.kernel import check_kernel as check_kernel
from stratagp.testing.layer import check_layer as check_layer
from stratagp.testing.likelihood import check_likelihood as check_likelihood
from stratagp.testing.posterior import check_posterior as check_posterior
from stratagp.testing.recipe import check_recipe as check_recipe
