"""Counts of events.

The log of the rate is a process, and the likelihood knows that counts are whole and not negative. The second column
of the target is the exposure: for how long each row was watched.
"""

import matplotlib.pyplot as plt
import numpy as np

from stratagp import AutoGPRegressor

rng = np.random.default_rng(0)
X = np.sort(rng.uniform(0, 6, 150))[:, None]
hours = rng.uniform(0.5, 2, 150)
count = rng.poisson(hours * np.exp(1 + np.sin(X[:, 0])))

gp = AutoGPRegressor(likelihood="poisson", n_inducing=10, max_epochs=100, random_state=0)
gp.fit(X, np.column_stack([count, hours]))
grid = np.linspace(0, 6, 100)[:, None]
rate, (low, high) = gp.predict(grid), gp.predict_interval(grid, level=0.9)
print(
    "at 1.5: rate {:.1f} in an hour (truth 7.4), 90 % interval {:.0f} to {:.0f}".format(
        gp.predict([[1.5]])[0], *np.ravel(gp.predict_interval([[1.5]], level=0.9))
    )
)

plt.fill_between(grid[:, 0], low, high, alpha=0.2, step="mid", label="90 % of counts in an hour")
plt.plot(grid, rate, label="rate")
plt.plot(grid, np.exp(1 + np.sin(grid)), "--", label="true rate")
plt.plot(X, count / hours, "k.", markersize=3, label="count / hours")
plt.legend()
plt.show()
