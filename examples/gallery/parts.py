"""A sum of parts that you can read.

A kernel for each column makes the prediction a sum of effects. `predict_component` returns one of them with its own
error bars.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from stratagp import GPRegressor
from stratagp import kernels as k

rng = np.random.default_rng(0)
X = pd.DataFrame({"temperature": rng.uniform(-5, 30, 120), "hour": rng.uniform(0, 24, 120)})
y = np.abs(X.temperature - 16) + 4 * np.sin(2 * np.pi * X.hour / 24) + 0.5 * rng.normal(size=120)

day = k.Periodic(lengthscale=1.0, period=24.0).fix("period").on("hour")
gp = GPRegressor(k.RBF(lengthscale=5.0).on("temperature") + day).fit(X, y)
figure, panels = plt.subplots(1, 2, figsize=(8, 3), layout="constrained")
for number, (name, panel) in enumerate(zip(X, panels, strict=True)):
    rows = X.sort_values(name)
    mean, std = gp.predict_component(rows, number, return_std=True)
    print(f"{name:11} moves the prediction by {np.ptp(mean):.1f}")
    panel.fill_between(rows[name], mean - 2 * std, mean + 2 * std, alpha=0.3)
    panel.plot(rows[name], mean)
    panel.set(xlabel=name, ylabel="effect on the load")
plt.show()
