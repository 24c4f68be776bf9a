"""Pictures of fits, kernels, effects, calibration and training, by matplotlib.

Each function takes an optional ``ax`` and returns the matplotlib Axes that it drew on, or an array of several. Nothing
is shown or saved, and no matplotlib settings are changed: ``ax.figure.savefig("fit.png")`` saves a picture.
"""

from stratagp.plotting.calibration import coverage_curve as coverage_curve
from stratagp.plotting.calibration import reliability as reliability
from stratagp.plotting.calibration import residuals as residuals
from stratagp.plotting.certainty import certainty_histogram as certainty_histogram
from stratagp.plotting.dependence import partial_dependence as partial_dependence
from stratagp.plotting.effects import anova_effects as anova_effects
from stratagp.plotting.effects import relevance as relevance
from stratagp.plotting.fits import fit_1d as fit_1d
from stratagp.plotting.kernels import kernel as kernel
from stratagp.plotting.kernels import prior_draws as prior_draws
from stratagp.plotting.latent import latent_manifold as latent_manifold
from stratagp.plotting.maps import maps_2d as maps_2d
from stratagp.plotting.survival import survival as survival
from stratagp.plotting.training import learning_curve as learning_curve
