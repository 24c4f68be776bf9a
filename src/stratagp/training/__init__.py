"""Training: optimisers that see an objective as a callable and could train anything."""

from stratagp.training.lbfgs import Result as Result
from stratagp.training.lbfgs import maximise as maximise
