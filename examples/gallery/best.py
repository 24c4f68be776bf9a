"""The best answer in the time there is.

`StrataRegressor` tries processes with several kernels and boosted trees, judges each by rows that it has not seen,
and mixes the best. `leaderboard_` lists the candidates, and `explain()` says in words what the mixture is made of.
"""

from sklearn.datasets import make_friedman1

from stratagp import StrataRegressor

X, y = make_friedman1(160, noise=1.0, random_state=0)
best = StrataRegressor(time_limit=2, random_state=0).fit(X[:100], y[:100])

print(best.explain())
print(f"R² on 60 new rows: {best.score(X[100:], y[100:]):.2f}")
