"""A cheap measurement helps an expensive one.

`outputs="correlated"` learns how targets vary together. Where the second was not measured (NaN), the first tells
what it must be.
"""

import matplotlib.pyplot as plt
import numpy as np

from stratagp import GPRegressor, metrics
from stratagp import kernels as k

rng = np.random.default_rng(0)
X = np.linspace(0, 10, 60)[:, None]
cheap = np.sin(X[:, 0]) + 0.05 * rng.normal(size=60)
truth = 3 - 2 * np.sin(X[:, 0])
dear = np.where((X[:, 0] > 3) & (X[:, 0] < 8), np.nan, truth + 0.05 * rng.normal(size=60))
gap, known = np.isnan(dear), ~np.isnan(dear)

alone = GPRegressor(k.RBF()).fit(X[known], dear[known]).predict(X)
both = GPRegressor(k.RBF(), outputs="correlated").fit(X, np.column_stack([cheap, dear])).predict(X)[:, 1]
print(f"error in the gap, alone:    {metrics.rmse(truth[gap], alone[gap]):.2f}")
print(f"error in the gap, together: {metrics.rmse(truth[gap], both[gap]):.2f}")

plt.plot(X, cheap, "C7.", label="cheap")
plt.plot(X, dear, "k.", label="expensive")
plt.plot(X, alone, "C1", label="expensive, predicted alone")
plt.plot(X, both, "C0", label="predicted with the cheap one")
plt.legend()
plt.show()
