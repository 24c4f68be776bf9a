"""Inputs that are themselves uncertain.

`predict_uncertain` averages a smooth surrogate over Gaussian inputs in closed form, where Monte Carlo would need
thousands of calls of the model.
"""

import numpy as np

from stratagp import GPRegressor
from stratagp import kernels as k

rng = np.random.default_rng(0)
runs = rng.uniform(-2, 2, (60, 2))
gp = GPRegressor(k.RBF(ard=True)).fit(runs, np.sin(runs[:, 0]) + runs[:, 1] ** 2)

mean, std = gp.predict_uncertain([[0.5, 1.0]], [[0.2, 0.3]])
draws = [0.5, 1.0] + np.array([0.2, 0.3]) * rng.normal(size=(200_000, 2))
values = np.sin(draws[:, 0]) + draws[:, 1] ** 2
print(f"surrogate:   {mean[0]:.3f} ± {std[0]:.3f}, from 60 runs")
print(f"Monte Carlo: {values.mean():.3f} ± {values.std():.3f}, from 200,000 runs of the function")
