"""Noise that changes with the input.

One noise level is too wide where the data are quiet and too narrow where they are not. `noise="heteroscedastic"`
learns a second process for the log of the noise.
"""

import matplotlib.pyplot as plt
import numpy as np

from stratagp import GPRegressor, plotting

rng = np.random.default_rng(0)
X = np.sort(rng.uniform(0, 6, 200))[:, None]
spread = 0.05 + 0.3 * np.sin(X[:, 0] / 2) ** 4
y = np.sin(2 * X[:, 0]) + spread * rng.normal(size=200)

figure, panels = plt.subplots(1, 2, figsize=(9, 3), sharey=True, layout="constrained")
for panel, noise in zip(panels, (None, "heteroscedastic"), strict=True):
    gp = GPRegressor(noise=noise).fit(X[::2], y[::2])
    print(f"noise={noise!r:18} log density of a new row {gp.log_density(X[1::2], y[1::2]).mean():5.2f}")
    plotting.fit_1d(gp, X[::2], y[::2], ax=panel).set_title(f"noise={noise!r}")
plt.show()
