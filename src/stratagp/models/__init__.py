"""Models: compositions of the parts, each reading like its textbook page or paper."""

from stratagp.models.exact import ExactGP as ExactGP
from stratagp.models.exact import ExactPosterior as ExactPosterior
from stratagp.models.process import Process as Process
