"""Fitted estimators of every kind, small and quick, with rows to ask them about."""

import warnings
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple
from unittest import mock

import numpy as np
import torch
from torch import nn

import stratagp as s
from stratagp import kernels as k
from stratagp import likelihoods as lik
from stratagp import means, priors

_STEPS = "stratagp.recipes.stochastic._LEAST_STEPS"
_WARM_UP = "stratagp.recipes.search.WARM_UP"


class Fitted(NamedTuple):
    """A fitted estimator and rows to predict."""

    model: Any
    X: Any


def table(n: int = 40, d: int = 3) -> np.ndarray:
    return np.random.default_rng(0).normal(size=(n, d))


def numbers(X: np.ndarray) -> np.ndarray:
    return 10 + 3 * np.sin(X[:, 0]) + X[:, 1] + 0.1 * np.random.default_rng(1).normal(size=len(X))


def labels(X: np.ndarray, classes: int = 3) -> np.ndarray:
    names = np.array(["ant", "bee", "cat"][:classes])
    return names[np.digitize(X[:, 0] + X[:, 1] * 0.5, np.linspace(-0.5, 0.5, classes + 1)[1:-1])]


def mixed_frame(n: int = 40) -> Any:
    pandas = __import__("pandas")
    random = np.random.default_rng(2)
    return pandas.DataFrame(
        {
            "size": random.normal(size=n),
            "town": random.choice(["Rome", "Oslo", "Bern"], size=n),
            "kind": pandas.Categorical(random.choice(["x", "y"], size=n), categories=["y", "x", "z"]),
            "day": pandas.date_range("2020-01-01", periods=n, freq="D"),
            "open": random.random(n) < 0.5,
        }
    )


WORDS = ["aab", "abba", "bab", "cab", "caab", "bbb", "aaa", "abc", "acb", "bca", "cba", "aabb", "ccc", "cca", "bcc"]
COUNTS = np.array([word.count("a") for word in WORDS], dtype=float)


def _regressor(n: int = 40, **options: Any) -> Fitted:
    X = table(n)
    options = {"n_restarts": 0, "max_iterations": 20, "random_state": 0, **options}
    with mock.patch(_STEPS, 5), mock.patch(_WARM_UP, 15):
        return Fitted(s.GPRegressor(**options).fit(X, numbers(X)), X[:7] + 0.1)


def _many_rows() -> Fitted:
    """A factor in single precision."""
    places = ("stratagp.models.exact.LARGE_ROWS", "stratagp.recipes.exact.LARGE_ROWS")
    double = "stratagp.models.noisy_covariance.DOUBLE_ROWS"
    with mock.patch(places[0], 550), mock.patch(places[1], 550), mock.patch(double, 0):
        return _regressor(n=560, inference="exact", kernel=k.RBF(1.0), max_iterations=2)


def _stack() -> Fitted:
    X = table(60)
    y = np.exp(numbers(X) / 4)
    plan = ["log target, Matérn 5/2", "boosted trees", "Matérn 5/2, long tails", "boosted mean, Matérn 3/2"]
    model = s.StrataRegressor(plan=plan, random_state=0).fit(X, y)
    model.fitted_.weights = torch.full((len(model.fitted_.members),), 1 / len(model.fitted_.members)).double()
    return Fitted(model, X[:7] + 0.1)


def _stack_of_counts() -> Fitted:
    X = table(60)
    y = np.random.default_rng(3).poisson(np.exp(numbers(X) / 6 - 1))
    plan = ["zero-inflated, Matérn 5/2", "boosted counts", "squared exponential", "log target, Matérn 5/2"]
    model = s.StrataRegressor(plan=plan, random_state=0).fit(X, y)
    every = model.fitted_
    every.weights = torch.full((len(every.members),), 1 / len(every.members)).double()
    return Fitted(model, X[:7] + 0.1)


def _class_stack() -> Fitted:
    X = table(60)
    return Fitted(s.StrataClassifier(plan=["Matérn 5/2", "extra trees"], random_state=0).fit(X, labels(X)), X[:7] + 0.1)


def _correlated() -> Fitted:
    X = table(30)
    y = np.stack([numbers(X), np.cos(X[:, 0])], 1)
    y[::3, 1] = np.nan
    gp = s.GPRegressor(outputs="correlated", n_restarts=0, max_iterations=15, random_state=0)
    return Fitted(gp.fit(X, y), X[:5])


def _targets() -> Fitted:
    X = table(30)
    y = np.stack([numbers(X), X[:, 2]], 1)
    return Fitted(s.GPRegressor(n_restarts=0, random_state=0).fit(X, y), X[:5])


def _missing() -> Fitted:
    X = table(40)
    X[::7, 1] = np.nan
    gp = s.GPRegressor(missing="impute", n_restarts=0, max_iterations=15, random_state=0)
    return Fitted(gp.fit(X, numbers(np.nan_to_num(X))), X[:9])


def _weights() -> Fitted:
    X = table(40)
    gp = s.GPRegressor(n_restarts=0, max_iterations=15, random_state=0)
    return Fitted(gp.fit(X, numbers(X), sample_weight=np.linspace(0, 2, 40)), X[:5])


def _frame() -> Fitted:
    frame = mixed_frame()
    gp = s.GPRegressor(n_restarts=0, max_iterations=15, random_state=0)
    return Fitted(gp.fit(frame, frame["size"].to_numpy() + (frame["town"] == "Rome")), frame.iloc[:6])


def _codes() -> Fitted:
    frame = mixed_frame()[["size", "town"]]
    kernel = k.Coregionalised(k.RBF(), 3)
    gp = s.GPRegressor(kernel, encoding="codes", n_restarts=0, max_iterations=10, random_state=0)
    return Fitted(gp.fit(frame, frame["size"].to_numpy() * 2), frame.iloc[:6])


def _rich() -> Fitted:
    """A sum of parts on columns, a mean, priors, ties, fixed values, standardised inputs, a random state."""
    X = table(40)
    first = k.RBF(lengthscale=s.positive(1.0, prior=priors.Gamma(2, 1))).on([0])
    kernel = first + k.Periodic(period=s.positive(2.0, trainable=False)).on([1]) * k.Linear() + k.Matern(ard=True)
    mean = means.Polynomial([0.1, 0.2, 0.3])
    gp = s.GPRegressor(kernel, mean=mean, standardise="both", n_restarts=0, max_iterations=15)
    return Fitted(gp.set_params(random_state=np.random.RandomState(5)).fit(X, numbers(X)), X[:6])


def _texts(estimator: Any) -> Fitted:
    return Fitted(estimator.fit(WORDS, COUNTS), ["abab", "zzz", "caa"])


def _classifier(classes: int, n: int = 40, **options: Any) -> Fitted:
    X = table(n)
    gp = s.GPClassifier(**{"max_iterations": 10, "random_state": 0, **options})
    with mock.patch(_STEPS, 5), mock.patch(_WARM_UP, 15):
        return Fitted(gp.fit(X, labels(X, classes)), X[:7] + 0.1)


def _frame_classifier() -> Fitted:
    frame = mixed_frame()
    return Fitted(s.GPClassifier(max_iterations=5, random_state=0).fit(frame, frame["size"] > 0), frame.iloc[:5])


def _batched(cls: Any, of_classes: int = 0, **options: Any) -> Fitted:
    X = table(60)
    model = cls(**{"max_epochs": 5, "random_state": 0, **options})
    y = labels(X, of_classes) if of_classes else numbers(X)
    model.fit(X, y)
    return Fitted(model, X[:7] + 0.1)


def _likelihood(likelihood: Any, y: np.ndarray | None = None) -> Fitted:
    X = table(60)
    model = s.AutoGPRegressor(likelihood=likelihood, n_inducing=6, max_epochs=5, random_state=0)
    target = np.abs(numbers(X)).round() + 1 if y is None else y
    model.fit(X, target)
    return Fitted(model, X[:5])


def _images() -> Fitted:
    X = np.random.default_rng(0).normal(size=(24, 1, 12, 12)).astype(np.float32)
    model = s.DKLClassifier(max_epochs=2, pretrain_epochs=1, batch_size=8, random_state=0)
    model.fit(X, np.arange(24) % 3)
    return Fitted(model, X[:4])


def _resnet() -> Fitted:
    X = np.random.default_rng(0).normal(size=(16, 8, 8)).astype(np.float32)
    model = s.DKLClassifier(network="resnet", spectral=True, max_epochs=2, pretrain_epochs=1, batch_size=8)
    model.set_params(random_state=0).fit(X, np.arange(16) % 2)
    return Fitted(model, X[:4])


def _embedded() -> Fitted:
    frame = mixed_frame(60)
    model = s.DKLRegressor(encoding="codes", max_epochs=2, pretrain_epochs=1, random_state=0)
    model.fit(frame, frame["size"])
    return Fitted(model, frame.iloc[:4])


def _own_network() -> Fitted:
    network = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.LayerNorm(8), nn.Linear(8, 4))
    return _batched(s.DKLRegressor, network=network, last="inducing", n_inducing=6, pretrain_epochs=1)


def _views() -> Fitted:
    X = {"left": table(30, 2), "words": (WORDS * 2)}
    y = np.tile(COUNTS, 2)
    kernels = {"words": k.Spectrum(2)}
    model = s.DFGPRegressor(n_inducing=5, max_iterations=5, view_kernels=kernels, random_state=0).fit(X, y)
    return Fitted(model, {"left": X["left"][:4], "words": X["words"][:4]})


def _views_of_frame() -> Fitted:
    frame = mixed_frame(30)[["size", "town"]].assign(word=WORDS * 2)
    model = s.GPDRFRegressor(n_inducing=6, n_features=8, max_epochs=3, view_kernels={"word": k.Spectrum(2)})
    model.set_params(random_state=0).fit(frame, np.tile(COUNTS, 2))
    return Fitted(model, frame.iloc[:4])


def _graphs() -> Fitted:
    random = np.random.default_rng(0)
    graphs = []
    for _ in range(12):
        n = int(random.integers(3, 6))
        edges = [(i, int(random.integers(0, i)), "e") for i in range(1, n)]
        graphs.append(k.Graph(edges, [str(label) for label in random.integers(0, 2, n)]))
    gp = s.GPRegressor(k.WeisfeilerLehman(2), n_restarts=0, max_iterations=5, random_state=0)
    return Fitted(gp.fit(graphs, [len(graph.labels) for graph in graphs]), graphs[:4])


def _trees() -> Fitted:
    trees = ["(a (b) (c))", "(a (b))", "(b (a) (a))", "(c (a (b)))", "(a)", "(b (c))"]
    parsed = [k.read_tree(tree) for tree in trees] if hasattr(k, "read_tree") else trees
    gp = s.GPRegressor(k.SubsetTree(), n_restarts=0, max_iterations=5, random_state=0)
    return Fitted(gp.fit(parsed, [3.0, 2, 3, 3, 1, 2]), parsed[:3])


def _gplvm() -> Fitted:
    X = table(30, 4)
    return Fitted(s.BayesianGPLVM(2, n_inducing=6, max_iterations=10).fit(X), X[:4])


def _calibrated(cls: Any, name: str, of_classes: int = 0, **options: Any) -> Fitted:
    """A model of another name, corrected by other rows."""
    X = table(90)[40:]
    y = labels(X, of_classes) if of_classes else numbers(X)
    return Fitted(cls(fitted(name).model, **options).fit(X, y), X[:5] + 0.1)


MAKERS: dict[str, Callable[[], Fitted]] = {
    "stack": _stack,
    "stack of classes": _class_stack,
    "stack of counts": _stack_of_counts,
    "exact": lambda: _regressor(kernel=k.Matern(nu=2.5, ard=True)),
    "exact, no noise": lambda: _regressor(noise=0.0),
    "exact, noise of rows": lambda: _regressor(noise=np.linspace(0.1, 1, 40)),
    "exact, leave-one-out": lambda: _regressor(hyperparameters="loo"),
    "exact, many rows": _many_rows,
    "exact, averaged": lambda: _regressor(hyperparameters="bayes", n_draws=2, n=12, kernel=k.RBF(1.0)),
    "heteroscedastic": lambda: _regressor(noise="heteroscedastic", n=25, max_iterations=5),
    "sparse": lambda: _regressor(inference="sparse", n_inducing=8),
    "vecchia": lambda: _regressor(inference="vecchia", n_neighbours=8, max_iterations=5),
    "stochastic": lambda: _regressor(inference="stochastic", n_inducing=8, max_epochs=1),
    "correlated": _correlated,
    "several targets": _targets,
    "missing": _missing,
    "weights": _weights,
    "frame": _frame,
    "codes": _codes,
    "rich": _rich,
    "texts": lambda: _texts(s.GPRegressor(k.Spectrum(2), n_restarts=0, max_iterations=5, random_state=0)),
    "student-t": lambda: Fitted(
        s.StudentTProcessRegressor(n_restarts=0, max_iterations=10, random_state=0).fit(table(), numbers(table())),
        table()[:4],
    ),
    "laplace": lambda: _classifier(2, inference="laplace"),
    "ep": lambda: _classifier(2, inference="ep"),
    "local bound": lambda: _classifier(2, inference="variational"),
    "softmax": lambda: _classifier(3, inference="laplace"),
    "one against rest": lambda: _classifier(3, inference="ep"),
    "vecchia, two classes": lambda: _classifier(2, inference="vecchia", n_neighbours=8, max_iterations=2),
    "vecchia, classes": lambda: _classifier(3, inference="vecchia", n_neighbours=8, max_iterations=2),
    "stochastic classes": lambda: _classifier(3, inference="stochastic", n_inducing=8, max_epochs=1),
    "classes averaged": lambda: _classifier(2, hyperparameters="bayes", n_draws=2, n=15, kernel=k.RBF(1.0)),
    "classes of a frame": _frame_classifier,
    "autogp": lambda: _batched(s.AutoGPRegressor, n_inducing=6),
    "autogp, mixture": lambda: _batched(s.AutoGPRegressor, n_inducing=6, n_components=2, covariance="diagonal"),
    "autogp, loo": lambda: _batched(s.AutoGPRegressor, n_inducing=6, objective="loo", validation=0.2),
    "autogp, deep kernel": lambda: _batched(s.AutoGPClassifier, 3, n_inducing=6, kernel=k.ArcCosine(degree=1, depth=2)),
    "autogp, robust": lambda: _batched(s.AutoGPClassifier, 3, n_inducing=6, likelihood="robust-max"),
    "autogp, texts": lambda: _texts(s.AutoGPRegressor(k.Spectrum(2), n_inducing=5, max_epochs=1, random_state=0)),
    "poisson": lambda: _likelihood("poisson"),
    "student noise": lambda: _likelihood("student-t"),
    "heteroscedastic noise": lambda: _likelihood("heteroscedastic"),
    "gprn": lambda: _likelihood("gprn", np.stack([numbers(table(60)), table(60)[:, 2]], 1)),
    "weibull": lambda: _likelihood("weibull"),
    "given likelihood": lambda: _likelihood(lik.Gamma()),
    "dkl": lambda: _batched(s.DKLRegressor, network=[8, 4], grid_size=8, pretrain_epochs=1),
    "dkl, two axes": lambda: _batched(s.DKLRegressor, network=[8, 4], grid_size=8, axes=2, pretrain_epochs=1),
    "dkl, classes": lambda: _batched(s.DKLClassifier, 3, network=[8, 4], grid_size=8, pretrain_epochs=1, dropout=0.1),
    "dkl, inducing": _own_network,
    "dkl, images": _images,
    "dkl, residual network": _resnet,
    "dkl, embedded codes": _embedded,
    "dfgp": lambda: _batched(s.DFGPRegressor, n_inducing=6, n_hidden=2, max_iterations=5),
    "dfgp, classes": lambda: _batched(s.DFGPClassifier, 2, n_inducing=6, n_hidden=2),
    "dfgp, three layers": lambda: _batched(s.DFGPRegressor, n_inducing=5, n_hidden=2, n_layers=3, max_iterations=3),
    "dfgp, columns in views": lambda: _batched(
        s.DFGPRegressor, n_inducing=5, views=[slice(0, 2), [2]], max_iterations=3
    ),
    "dfgp, views": _views,
    "noisy inputs": lambda: Fitted(
        s.NoisyInputRegressor(0.2, n_inducing=6, max_iterations=5).fit(table(), numbers(table())), table()[:4]
    ),
    "wishart": lambda: _batched(s.WishartProcessRegressor, n_inducing=6, max_iterations=5),
    "drf": lambda: _batched(s.DRFRegressor, n_features=8),
    "drf, classes": lambda: _batched(s.DRFClassifier, 3, n_features=8),
    "gp-drf": lambda: _batched(s.GPDRFRegressor, n_inducing=6, n_features=8),
    "gp-drf, classes": lambda: _batched(s.GPDRFClassifier, 2, n_inducing=6, n_features=8),
    "gp-drf, texts": lambda: _texts(
        s.GPDRFRegressor(k.Spectrum(2), n_inducing=6, n_features=8, max_epochs=5, random_state=0)
    ),
    "gp-drf, frame with texts": _views_of_frame,
    "graphs": _graphs,
    "trees": _trees,
    "latent variables": _gplvm,
    "conformal": lambda: _calibrated(s.ConformalRegressor, "exact"),
    "recalibrated": lambda: _calibrated(s.RecalibratedRegressor, "autogp"),
    "conformal classes": lambda: _calibrated(s.ConformalClassifier, "softmax", 3),
    "recalibrated classes": lambda: _calibrated(s.RecalibratedClassifier, "softmax", 3),
    "temperature": lambda: _calibrated(s.RecalibratedClassifier, "laplace", 2, method="temperature"),
}


@cache
def fitted(name: str) -> Fitted:
    """One of the estimators, fitted once for all tests."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.manual_seed(0)
        return MAKERS[name]()
