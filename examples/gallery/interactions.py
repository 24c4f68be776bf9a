"""Which columns act together.

With an ANOVA kernel the prediction is a sum of a constant, effects of single columns, and interactions. Sobol
indices are their shares of the variance; the two of this function are known.
"""

import matplotlib.pyplot as plt
import numpy as np

from stratagp import GPRegressor, plotting
from stratagp import kernels as k

rng = np.random.default_rng(0)
X = rng.uniform(size=(80, 3))
y = 2 * X[:, 0] + 3 * (X[:, 1] - 0.5) * (X[:, 2] - 0.5)

gp = GPRegressor(k.anova_kernel([k.Measure.uniform(0, 1)] * 3), noise=1e-4, n_restarts=0).fit(X, y)
found = gp.sobol_indices()
variance = np.array([1 / 3, 9 / 144])
print(f"first column alone:  {found.first[0]:.3f}, truth {variance[0] / variance.sum():.3f}")
print(f"second and third:    {found.total[1] - found.first[1]:.3f}, truth {variance[1] / variance.sum():.3f}")
plotting.anova_effects(gp)
plt.show()
