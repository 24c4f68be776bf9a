"""Which columns matter, and how.

`relevance_` is each column's share of the prediction, whatever its units. `partial_dependence` shows the effect of
one column, averaged over the others, with a band that says how well it is known.
"""

import matplotlib.pyplot as plt
import pandas as pd
from sklearn.datasets import make_friedman1

from stratagp import GPRegressor, plotting

X, y = make_friedman1(120, n_features=7, noise=0.5, random_state=0)
X = pd.DataFrame(X, columns=["wave a", "wave b", "bowl", "slope", "gentle slope", "idle a", "idle b"])

gp = GPRegressor().fit(X, y)
for name, share in zip(X, gp.relevance_, strict=True):
    print(f"{name:13} {share:4.0%}")
plotting.partial_dependence(gp, X, ["bowl", "slope", "idle a"], target="effect")
plt.show()
