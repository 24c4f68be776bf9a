"""Noise, or too few data?

The interval of an observation has two parts. That of the function (`of="f"`) shrinks as rows arrive; the noise
stays. Where the first dominates, measure more; where the second does, measure better.
"""

import matplotlib.pyplot as plt
import numpy as np

from stratagp import GPRegressor

rng = np.random.default_rng(0)
X = np.concatenate([rng.uniform(0, 4, 60), rng.uniform(7, 8, 6)])[:, None]
y = np.sin(X[:, 0]) + 0.2 * rng.normal(size=66)

gp = GPRegressor().fit(X, y)
grid = np.linspace(0, 9, 150)[:, None]
for of, shade in (("y", 0.15), ("f", 0.35)):
    low, high = gp.predict_interval(grid, of=of)
    plt.fill_between(grid[:, 0], low, high, alpha=shade, color="C0", label=f'of="{of}"')
    low, high = gp.predict_interval([[2.0], [5.5]], of=of)
    print(f'of="{of}": width {high[0] - low[0]:.2f} among the data, {high[1] - low[1]:.2f} in the gap')
plt.plot(X, y, "k.")
plt.legend()
plt.show()
