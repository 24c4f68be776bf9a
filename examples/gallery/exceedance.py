"""The probability of being above a limit.

Often the question is not "how much" but "too much?". `cdf` answers it for each place, with all doubt included.
"""

import matplotlib.pyplot as plt
import numpy as np

from stratagp import GPRegressor
from stratagp import kernels as k

rng = np.random.default_rng(0)
sites = rng.uniform(0, 10, (80, 2))
lead = np.exp(3 + np.exp(-((sites - 6) ** 2).sum(1) / 8) + 0.2 * rng.normal(size=80))

gp = GPRegressor(k.Matern(1.5)).fit(sites, np.log(lead))
axis = np.linspace(0, 10, 50)
places = np.stack(np.meshgrid(axis, axis), -1).reshape(-1, 2)
above = 1 - gp.cdf(places, np.full(len(places), np.log(40)))
print(f"more likely than not above 40 mg/kg: {np.mean(above > 0.5):.0%} of the area")
print(f"cannot be ruled out at 5 %:          {np.mean(above > 0.05):.0%}")

filled = plt.contourf(axis, axis, above.reshape(50, 50), levels=np.linspace(0, 1, 11), cmap="Reds")
plt.plot(*sites.T, "k.", markersize=3)
plt.colorbar(filled, label="probability of more than 40 mg/kg")
plt.show()
