"""Models: compositions of the parts, each reading like its textbook page or paper."""

from stratagp.models.autogp import Phase as Phase
from stratagp.models.autogp import autogp as autogp
from stratagp.models.autogp import fit_phases as fit_phases
from stratagp.models.autogp import phases as phases
from stratagp.models.classification import BinaryPosterior as BinaryPosterior
from stratagp.models.classification import GPClassification as GPClassification
from stratagp.models.classification import MulticlassLaplace as MulticlassLaplace
from stratagp.models.classification import MulticlassPosterior as MulticlassPosterior
from stratagp.models.exact import ExactGP as ExactGP
from stratagp.models.exact import ExactPosterior as ExactPosterior
from stratagp.models.exact_posterior import DerivativeProcess as DerivativeProcess
from stratagp.models.heteroscedastic import HeteroscedasticGP as HeteroscedasticGP
from stratagp.models.heteroscedastic import HeteroscedasticPosterior as HeteroscedasticPosterior
from stratagp.models.process import Process as Process
from stratagp.models.sobol import SobolIndices as SobolIndices
from stratagp.models.sobol import sobol_indices as sobol_indices
from stratagp.models.sparse import SparseGP as SparseGP
from stratagp.models.sparse import SparsePosterior as SparsePosterior
from stratagp.models.stochastic import StochasticGP as StochasticGP
from stratagp.models.student_t import StudentTPosterior as StudentTPosterior
from stratagp.models.student_t import StudentTProcess as StudentTProcess
from stratagp.models.surrogate import expected_improvement as expected_improvement
from stratagp.models.surrogate import partial_dependence as partial_dependence
from stratagp.models.surrogate import predict_uncertain as predict_uncertain
