"""Results that the tests of the report share."""

import copy

import numpy as np
import pytest

from stratagp import GPClassifier, GPRegressor
from stratagp.report.results import gather

pd = pytest.importorskip("pandas")
pytest.importorskip("matplotlib")
pytest.importorskip("jinja2")

PLAINLY = {
    "baselines": {},
    "settings": {"command": "stratagp fit trial.csv"},
    "assumptions": [],
    "title": "A trial",
    "seed": 0,
}


def trial(n=70):
    """A frame with numbers, a category and names that a page must escape, and its target."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame(
        {
            "dose (mg)": rng.uniform(0, 5, n),
            "<script>alert(1)</script>": rng.normal(size=n),
            "town": rng.choice(["Bonn", "<b>Oslo</b>", "$Rome$"], n),
        }
    )
    y = pd.Series(np.sin(X["dose (mg)"]) + (X.town == "Bonn") + 0.1 * rng.normal(size=n), name="effect & cause")
    return X, y


@pytest.fixture(scope="session")
def regression():
    """A fitted regressor, its rows, and the results about its last 30."""
    X, y = trial()
    model = GPRegressor(n_restarts=0).fit(X[:40], y[:40])
    held = X[40:], y[40:]
    baselines = {"mean of the target": {"rmse": float(np.std(y[40:])), "mae": 0.7}}
    return model, held, gather(model, X[:40], y[:40], *held, **{**PLAINLY, "baselines": baselines})


@pytest.fixture(scope="session")
def classification():
    """The same with classes."""
    X, y = trial(90)
    label = np.where(y > 0.6, "high", np.where(y < 0.0, "low", "middle & more"))
    model = GPClassifier(max_iterations=0).fit(X[:50], label[:50])
    held = X[50:], label[50:]
    return model, held, gather(model, X[:50], label[:50], *held, **PLAINLY)


@pytest.fixture
def results(regression):
    """Results that a test may change."""
    return copy.deepcopy(regression[2])
