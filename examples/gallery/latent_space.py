"""A map of the rows.

A latent variable model finds few numbers behind many columns, and says how sure it is of each row's place. Here
four measurements of irises come from two coordinates, and the species lie in different parts of the map, though the
model was not told them.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_iris

from stratagp import BayesianGPLVM, plotting

X, y = load_iris(return_X_y=True)
gplvm = BayesianGPLVM(n_components=2, n_inducing=12, max_iterations=60).fit(X[::2])
latent = gplvm.transform(X[::2])

near = ((latent[:, None] - latent) ** 2).sum(2) + 1e9 * (latent[:, None] == latent).all(2)
print(f"the nearest neighbour on the map is of the same species for {(y[::2][near.argmin(1)] == y[::2]).mean():.0%}")
plotting.latent_manifold(gplvm, X[::2], y[::2], target="species")
plt.show()
