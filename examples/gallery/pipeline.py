"""Part of a scikit-learn pipeline.

Every model is a scikit-learn estimator: it can be cloned, searched, cross-validated and put behind a transformer.
"""

from sklearn.datasets import load_wine
from sklearn.decomposition import PCA
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from stratagp import GPClassifier
from stratagp import kernels as k

X, y = load_wine(return_X_y=True)
pipeline = make_pipeline(StandardScaler(), PCA(2), GPClassifier(max_iterations=10, n_restarts=0))
search = GridSearchCV(pipeline, {"gpclassifier__kernel": [k.RBF(), k.Linear()]}, scoring="neg_log_loss", cv=3)
search.fit(X[::2], y[::2])

print(f"kernel: {search.best_params_['gpclassifier__kernel']}")
print(f"right: {search.best_estimator_.score(X[1::2], y[1::2]):.0%} of 89 other wines")
