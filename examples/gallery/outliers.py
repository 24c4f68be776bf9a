"""Outliers that must not bend the curve.

A Gaussian likelihood believes every row. A Student-t likelihood lets a few rows be far off: the curve stays where
most of the data are.
"""

import matplotlib.pyplot as plt
import numpy as np

from stratagp import AutoGPRegressor, GPRegressor, metrics

rng = np.random.default_rng(0)
X = np.sort(rng.uniform(0, 6, 120))[:, None]
truth = np.sin(X[:, 0])
y = truth + 0.1 * rng.normal(size=120)
y[rng.choice(120, 12, replace=False)] += 3

plt.plot(X, y, "k.", label="observed")
robust = AutoGPRegressor(likelihood="student-t", n_inducing=12, max_epochs=150, random_state=0)
for name, gp in {"Gaussian": GPRegressor(), "Student-t": robust}.items():
    curve = gp.fit(X, y).predict(X, of="f")
    print(f"{name:9} distance from the truth {metrics.rmse(truth, curve):.2f}")
    plt.plot(X, curve, label=name)
plt.legend()
plt.show()
