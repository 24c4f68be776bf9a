"""Training: optimisers and samplers of any objective given as a callable, and the choice of inducing points."""

from stratagp.training.curvature import Hyperparameter as Hyperparameter
from stratagp.training.curvature import HyperparameterTable as HyperparameterTable
from stratagp.training.curvature import hessian as hessian
from stratagp.training.devices import find_device as find_device
from stratagp.training.inducing_points import greedy_points as greedy_points
from stratagp.training.inducing_points import kmeans_points as kmeans_points
from stratagp.training.lbfgs import Result as Result
from stratagp.training.lbfgs import maximise as maximise
from stratagp.training.loop import History as History
from stratagp.training.loop import cosine as cosine
from stratagp.training.loop import train as train
from stratagp.training.natural_gradient import natural_step as natural_step
from stratagp.training.restarts import maximise_from_many as maximise_from_many
from stratagp.training.start import start_from_data as start_from_data
from stratagp.whole_files import appearing as appearing
