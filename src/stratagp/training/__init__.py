"""Training: optimisers that see an objective as a callable, and the choice of inducing points."""

from stratagp.training.inducing import greedy_points as greedy_points
from stratagp.training.inducing import kmeans_points as kmeans_points
from stratagp.training.lbfgs import Result as Result
from stratagp.training.lbfgs import maximise as maximise
