"""Whole series as rows.

Each row is a series of its own length. `GlobalAlignment` compares two series along every way to align them, so the
same gesture counts as similar whether it was slow or fast.
"""

import matplotlib.pyplot as plt
import numpy as np

from stratagp import GPClassifier
from stratagp import kernels as k

rng = np.random.default_rng(0)
label, X = np.arange(60) % 2, []
for kind in label:
    t = np.linspace(0, 1, rng.integers(12, 25))[:, None] ** rng.uniform(0.7, 1.4)
    X.append(np.sin(2 * np.pi * t * (1 + 0.3 * kind)) + 0.3 * rng.normal(size=t.shape))

gp = GPClassifier(k.GlobalAlignment(1.0, lengthscale=1.0), max_iterations=15).fit(X[:40], label[:40])
print(f"right: {gp.score(X[40:], label[40:]):.0%} of 20 new series of {min(map(len, X))} to {max(map(len, X))} steps")

for series, kind in zip(X[:8], label, strict=False):
    plt.plot(series, f"C{kind}")
plt.xlabel("step")
plt.title("Two gestures, each at its own speed")
plt.show()
