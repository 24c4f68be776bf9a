"""A set of classes that holds the true one.

`calibrate` turns any classifier into one that answers with sets. With `alpha=0.05` they hold the true class of at
least 19 new rows in 20, on average, whatever the model got wrong. Clear rows get one class, doubtful ones several.
"""

import numpy as np
from sklearn.datasets import load_digits

from stratagp import GPClassifier, calibrate

X, y = load_digits(n_class=4, return_X_y=True)
X = X + np.random.default_rng(0).normal(0, 5, X.shape)
gp = GPClassifier(random_state=0).fit(X[:120], y[:120])
sure = calibrate(gp, X[120:420], y[120:420])
sets = sure.predict_set(X[420:], alpha=0.05)

print(f"the most probable class is right for {gp.score(X[420:], y[420:]):.0%}")
print(f"the sets hold the true class of {sets[np.arange(len(sets)), y[420:]].mean():.0%}")
print(f"classes in a set: {sets.sum(1).mean():.2f}")
