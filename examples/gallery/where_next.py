"""Where to measure next.

The standard deviation of the function says where the map is least known. Ten sensors that are placed one by one
where it is largest leave no blind spot as large as ten at random do.
"""

import matplotlib.pyplot as plt
import numpy as np

from stratagp import GPRegressor
from stratagp import kernels as k

rng = np.random.default_rng(2)
places = np.stack(np.meshgrid(*[np.linspace(0, 1, 25)] * 2), -1).reshape(-1, 2)
truth = np.sin(5 * places[:, 0]) * np.cos(4 * places[:, 1])


def fitted(chosen: list[int]) -> GPRegressor:
    """A map from the sensors so far; its kernel is known."""
    return GPRegressor(k.RBF(0.3, variance=1.0), noise=1e-3, max_iterations=0).fit(places[chosen], truth[chosen])


chosen = [0, 312]
for _ in range(10):
    chosen.append(int(fitted(chosen).predict(places, return_std=True, of="f")[1].argmax()))
for name, rows in {"one by one": chosen, "at random": list(rng.choice(625, 12, replace=False))}.items():
    mean, std = fitted(rows).predict(places, return_std=True, of="f")
    print(f"{name}: largest error {np.abs(mean - truth).max():.2f}, largest standard deviation {std.max():.2f}")
    plt.plot(*places[rows].T, "o", label=name)
plt.legend(loc="upper left", bbox_to_anchor=(1, 1))
plt.gca().set(title="Twelve sensors", aspect="equal")
plt.tight_layout()
plt.show()
