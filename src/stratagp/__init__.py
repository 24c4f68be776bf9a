"""Gaussian-process models, shallow and deep, with uncertainty you can trust."""

from importlib.metadata import version

from stratagp import kernels as kernels
from stratagp import likelihoods as likelihoods
from stratagp import linalg as linalg
from stratagp import means as means
from stratagp import metrics as metrics
from stratagp import priors as priors
from stratagp.models import ExactGP as ExactGP
from stratagp.models import GPClassification as GPClassification
from stratagp.models import MulticlassLaplace as MulticlassLaplace
from stratagp.models import SparseGP as SparseGP
from stratagp.models import StudentTProcess as StudentTProcess
from stratagp.parameters import bounded as bounded
from stratagp.parameters import positive as positive

__version__ = version("stratagp")
