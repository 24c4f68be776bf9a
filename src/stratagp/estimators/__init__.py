"""Estimators in the manner of scikit-learn: a set of options each, and shells that ask recipes and answer questions."""

from stratagp.estimators.autogp import AutoGPClassifier as AutoGPClassifier
from stratagp.estimators.autogp import AutoGPRegressor as AutoGPRegressor
from stratagp.estimators.calibration import calibrate as calibrate
from stratagp.estimators.conformal import ConformalClassifier as ConformalClassifier
from stratagp.estimators.conformal import ConformalRegressor as ConformalRegressor
from stratagp.estimators.dfgp import DFGPClassifier as DFGPClassifier
from stratagp.estimators.dfgp import DFGPRegressor as DFGPRegressor
from stratagp.estimators.dfgp import WishartProcessRegressor as WishartProcessRegressor
from stratagp.estimators.dkl import DKLClassifier as DKLClassifier
from stratagp.estimators.dkl import DKLRegressor as DKLRegressor
from stratagp.estimators.gp import GPClassifier as GPClassifier
from stratagp.estimators.gp import GPRegressor as GPRegressor
from stratagp.estimators.gp import StudentTProcessRegressor as StudentTProcessRegressor
from stratagp.estimators.gp_drf import DRFClassifier as DRFClassifier
from stratagp.estimators.gp_drf import DRFRegressor as DRFRegressor
from stratagp.estimators.gp_drf import GPDRFClassifier as GPDRFClassifier
from stratagp.estimators.gp_drf import GPDRFRegressor as GPDRFRegressor
from stratagp.estimators.gplvm import BayesianGPLVM as BayesianGPLVM
from stratagp.estimators.noisy_inputs import NoisyInputRegressor as NoisyInputRegressor
from stratagp.estimators.prediction_files import predict_file as predict_file
from stratagp.estimators.prediction_files import predicted_columns as predicted_columns
from stratagp.estimators.recalibrated import RecalibratedClassifier as RecalibratedClassifier
from stratagp.estimators.recalibrated import RecalibratedRegressor as RecalibratedRegressor
from stratagp.estimators.strata import StrataClassifier as StrataClassifier
from stratagp.estimators.strata import StrataRegressor as StrataRegressor
