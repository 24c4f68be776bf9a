"""Intervals with a guarantee.

This model was given a noise that is far too small. Held-out rows mend its intervals: after `calibrate`, the 90 %
interval holds at least nine new rows in ten on average, whatever was wrong with the model.
"""

import matplotlib.pyplot as plt
import numpy as np

from stratagp import GPRegressor, calibrate, metrics, plotting

rng = np.random.default_rng(0)
X = rng.uniform(0, 6, (700, 1))
y = np.sin(X[:, 0]) + 0.25 * rng.standard_t(4, 700)
train, held, new = slice(0, 100), slice(100, 400), slice(400, None)

sure = GPRegressor(noise=0.01, max_iterations=0).fit(X[train], y[train])
fair = calibrate(sure, X[held], y[held])
figure, panels = plt.subplots(1, 2, figsize=(8, 3.4), layout="constrained")
for model, name, panel in zip((sure, fair), ("as fitted", "calibrated"), panels, strict=True):
    low, high = model.predict_interval(X[new], level=0.9)
    print(f"{name:10} {metrics.interval_coverage(y[new], low, high):.0%} inside the 90 % interval")
    plotting.coverage_curve(model, X[new], y[new], ax=panel).set_title(name)
plt.show()
