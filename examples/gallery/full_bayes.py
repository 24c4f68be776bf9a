"""Few rows: average over what the lengthscale may be.

With ten rows many lengthscales fit. `hyperparameters="bayes"` averages predictions over draws from their posterior
distribution, and the intervals become honest about it.
"""

import matplotlib.pyplot as plt
import numpy as np

from stratagp import GPRegressor, plotting
from stratagp import kernels as k

rng = np.random.default_rng(3)
X = rng.uniform(0, 10, (10, 1))
y = np.sin(X[:, 0]) + 0.1 * rng.normal(size=10)
grid = np.linspace(0, 10, 200)[:, None]

figure, panels = plt.subplots(1, 2, figsize=(9, 3), sharey=True, layout="constrained")
truth = np.sin(grid[:, 0])
for panel, how in zip(panels, ("map", "bayes"), strict=True):
    gp = GPRegressor(k.RBF(), hyperparameters=how, n_draws=8, random_state=0).fit(X, y)
    low, high = gp.predict_interval(grid)
    inside = np.mean((low < truth) & (truth < high))
    print(f"{how:5}: {inside:.0%} of the curve inside, mean width {np.mean(high - low):.2f}")
    plotting.fit_1d(gp, X, y, ax=panel).set_title(how)
plt.show()
