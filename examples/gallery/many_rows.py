"""Many rows.

Above 4,000 rows `GPRegressor` answers by Vecchia's approximation: each prediction comes from the nearest rows, so
time grows in proportion to their number. `inference_reason_` says what was done and why; `inference="exact"`
insists on all rows.
"""

import numpy as np

from stratagp import GPRegressor, metrics

rng = np.random.default_rng(0)
X = rng.uniform(0, 10, (4300, 2))
truth = np.sin(X[:, 0]) * np.cos(X[:, 1])
y = truth + 0.3 * rng.normal(size=4300)

gp = GPRegressor(n_neighbours=40, max_iterations=4, random_state=0).fit(X[:4100], y[:4100])
mean, std = gp.predict(X[4100:], return_std=True, of="f")
print(gp.inference_, "because", gp.inference_reason_)
print(f"distance from the truth {metrics.rmse(truth[4100:], mean):.3f}; the model says {np.sqrt(np.mean(std**2)):.3f}")
