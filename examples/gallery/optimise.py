"""The minimum of a costly function, in few evaluations.

Fit a process to what was tried, and try next where the expected improvement is largest: where the mean is low, or
the doubt is great.
"""

import matplotlib.pyplot as plt
import numpy as np
import torch

from stratagp import GPRegressor, plotting
from stratagp import kernels as k
from stratagp.models import expected_improvement


def costly(x: np.ndarray) -> np.ndarray:
    """Imagine that this takes an hour."""
    return np.sin(3 * x) + 0.3 * (x - 3) ** 2


grid, tried = np.linspace(0, 6, 201), np.array([0.5, 3.0, 5.5])
for _ in range(6):
    gp = GPRegressor(k.Matern(2.5, lengthscale=1.0), noise=1e-6, n_restarts=0).fit(tried[:, None], costly(tried))
    mean, std = (torch.from_numpy(part) for part in gp.predict(grid[:, None], return_std=True, of="f"))
    gain = expected_improvement(mean, std, best=costly(tried).min())
    tried = np.append(tried, grid[int(gain.argmax())])

print(f"best of {len(tried)} evaluations: {costly(tried).min():.3f} at {tried[costly(tried).argmin()]:.2f}")
print(f"the minimum of the grid: {costly(grid).min():.3f} at {grid[costly(grid).argmin()]:.2f}")
plotting.fit_1d(gp, tried[:-1, None], costly(tried[:-1]), margin=0.1).plot(grid, costly(grid), "k--")
plt.show()
