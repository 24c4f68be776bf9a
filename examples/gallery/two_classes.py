"""The probability of a class.

Between the classes the probability is near one half, and far from all data it returns to the share of each class.
The picture of a classifier shows the probability and where the model is uncertain.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import make_moons

from stratagp import GPClassifier, metrics, plotting

X, y = make_moons(260, noise=0.25, random_state=0)
gp = GPClassifier().fit(X[:160], y[:160])
probability = gp.predict_proba(X[160:])

print(f"right: {gp.score(X[160:], y[160:]):.0%} of 100 new rows")
print(f"log loss: {metrics.log_loss(y[160:], probability, gp.classes_):.2f}; a coin has 0.69")
plotting.maps_2d(gp, X[:160], y[:160])
plt.show()
