"""How good predictions are: errors, densities, whether error bars hold, how certain classes are, and survival.

Regression metrics take one number per row, ``n`` or ``n 1``; classification metrics take labels and probabilities.
Every argument is checked: mismatched rows, NaN and invalid probabilities raise errors.
"""

from stratagp.metrics.calibration import Reliability as Reliability
from stratagp.metrics.calibration import ece as ece
from stratagp.metrics.calibration import ece_interval as ece_interval
from stratagp.metrics.calibration import reliability as reliability
from stratagp.metrics.classes import brier as brier
from stratagp.metrics.classes import f1 as f1
from stratagp.metrics.classes import log_loss as log_loss
from stratagp.metrics.densities import crps as crps
from stratagp.metrics.densities import crps_samples as crps_samples
from stratagp.metrics.densities import msll as msll
from stratagp.metrics.densities import nlpd as nlpd
from stratagp.metrics.densities import pit as pit
from stratagp.metrics.densities import pit_samples as pit_samples
from stratagp.metrics.intervals import coverage as coverage
from stratagp.metrics.intervals import interval_coverage as interval_coverage
from stratagp.metrics.intervals import interval_width as interval_width
from stratagp.metrics.intervals import pinball as pinball
from stratagp.metrics.points import mae as mae
from stratagp.metrics.points import nmse as nmse
from stratagp.metrics.points import rmse as rmse
from stratagp.metrics.points import smse as smse
from stratagp.metrics.separation import bhattacharyya as bhattacharyya
from stratagp.metrics.separation import bhattacharyya_margin as bhattacharyya_margin
from stratagp.metrics.survival import SurvivalCurve as SurvivalCurve
from stratagp.metrics.survival import kaplan_meier as kaplan_meier
from stratagp.metrics.survival import mean_by_group as mean_by_group
from stratagp.metrics.survival import survival_brier as survival_brier
