"""Exact regression by conjugate gradients in two processes that torchrun has started."""

import numpy as np

from stratagp import GPRegressor
from tests.training.test_world import together

SCRIPT = """
import json
import os
import numpy as np
from stratagp.training.world import World
from tests.estimators.test_shared_cg import fitted
np.random.seed(int(os.environ["RANK"]))  # what random_state=None draws from
size = World().size
own = fitted(None)
own = World().all_have(own)
again = fitted(1)
if World().is_first:
    print(json.dumps([size, World().size, own, again]))
"""


def fitted(random_state):
    g = np.random.default_rng(0)
    X = g.uniform(0, 4, size=(61, 2))
    y = np.sin(X).sum(1) + 0.1 * g.normal(size=61)
    gp = GPRegressor(inference="cg", max_epochs=2, n_restarts=0, max_iterations=15, random_state=random_state)
    mean, spread = gp.fit(X, y).predict(X[:4], return_std=True)
    return [gp.residual_, mean.tolist(), spread.tolist()]


def test_two_processes_fit_one_model(tmp_path):
    """They join, agree on a seed where each would draw its own, and give what one process gives."""
    ((before, size, own, shared),) = together(SCRIPT, folder=tmp_path)
    assert (before, size) == (1, 2)
    assert own[0] == own[1]
    alone = fitted(1)
    assert shared[0] < 1e-6
    np.testing.assert_allclose(shared[1], alone[1], rtol=1e-4)
    np.testing.assert_allclose(shared[2], alone[2], rtol=1e-3)
