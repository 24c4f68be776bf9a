"""A forecast from a trend and a season.

The kernel says what you believe: a slow trend plus a yearly wave whose period is known. The interval widens with
the distance from the data, because the trend is a guess there. `predict_component` gives each part alone.
"""

import matplotlib.pyplot as plt
import numpy as np

from stratagp import GPRegressor, metrics
from stratagp import kernels as k

rng = np.random.default_rng(1)
years = np.arange(0, 8, 1 / 12)[:, None]
sales = 20 + 2 * years[:, 0] + 4 * np.sin(2 * np.pi * years[:, 0]) + rng.normal(size=len(years))
past, future = slice(0, 72), slice(72, None)

season = k.Periodic(lengthscale=1.0, period=1.0).fix("period")
gp = GPRegressor(k.Linear() + k.RBF(lengthscale=5.0) + season).fit(years[past], sales[past])
mean, (low, high) = gp.predict(years), gp.predict_interval(years)
print(f"RMSE of the two years ahead {metrics.rmse(sales[future], mean[future]):.2f}, the noise is 1")
print(f"inside the 95 % interval: {metrics.interval_coverage(sales[future], low[future], high[future]):.0%}")

plt.fill_between(years[:, 0], low, high, alpha=0.2)
plt.plot(years, mean, label="prediction")
plt.plot(years, gp.predict_component(years, 2), label="season alone")
plt.plot(years, sales, "k.", markersize=3, label="observed")
plt.axvline(6, color="0.6")
plt.xlabel("year")
plt.ylabel("sales")
plt.legend()
plt.show()
