"""Times that are known only to be longer.

Some patients were still well when the study ended. A target `(time, seen)` says so, and each such row contributes
the probability of a longer time. `predict_survival` gives the curve of a new patient.
"""

import matplotlib.pyplot as plt
import numpy as np

from stratagp import AutoGPRegressor

rng = np.random.default_rng(0)
age = rng.uniform(40, 80, (250, 1))
time = np.exp(2.5 - 0.04 * (age[:, 0] - 40)) * rng.weibull(2.0, 250)
y = np.column_stack([np.minimum(time, 8), time < 8])

gp = AutoGPRegressor(likelihood="weibull", n_inducing=8, max_epochs=120, random_state=0).fit(age, y)
years = np.linspace(0.1, 12, 60)
for who, curve in zip((45, 60, 75), gp.predict_survival([[45.0], [60.0], [75.0]], years), strict=True):
    median = gp.predict_quantiles([[float(who)]], [0.5]).item()
    print(f"age {who}: median {median:.1f} years, truth {np.exp(2.5 - 0.04 * (who - 40)) * np.log(2) ** 0.5:.1f}")
    plt.plot(years, curve, label=f"age {who}")
plt.xlabel("years")
plt.ylabel("probability of a longer time")
plt.legend()
plt.show()
