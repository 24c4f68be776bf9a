"""A number, and the interval that holds it.

`GPRegressor` finds scales, start values and the way of inference. Its interval is that of a new observation;
`of="f"` asks for the function alone. Nine in ten of the patients it has not seen should lie inside, and about so
many do.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.model_selection import train_test_split

from stratagp import GPRegressor, metrics

X, y = load_diabetes(return_X_y=True, as_frame=True)
X, X_new, y, y_new = train_test_split(X, y, test_size=140, random_state=0)

gp = GPRegressor().fit(X, y)
mean = gp.predict(X_new)
low, high = gp.predict_interval(X_new, level=0.9)
print(f"RMSE {metrics.rmse(y_new, mean):.1f}; the targets' standard deviation is {y_new.std():.1f}")
print(f"{metrics.interval_coverage(y_new, low, high):.0%} of 140 new patients lie inside the 90 % interval")

order = np.argsort(mean)
plt.vlines(range(140), low[order], high[order], color="0.8")
plt.plot(mean[order], label="prediction")
plt.plot(y_new.to_numpy()[order], "k.", label="observed")
plt.xlabel("new patients, by prediction")
plt.ylabel("progression of the disease")
plt.legend()
plt.show()
