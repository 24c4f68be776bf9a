"""Writes the model files of the present format that later releases must still read: run it once for each version.

python -m tests.persistence.make_fixtures

Files that are there stay as they are, since they are to be those of the release that wrote them. Beside each model is
``expected.json``, with rows and what the model said about them when it was saved.
"""

import json
import warnings
from pathlib import Path

import numpy as np

import stratagp as s
from stratagp import kernels as k
from stratagp.persistence.files import FORMAT

HERE = Path(__file__).parent / "fixtures"
X = np.linspace(0, 6, 12)[:, None]
Y = np.sin(X[:, 0])
WORDS = ["aab", "abba", "bab", "cab", "caab", "bbb", "aaa", "abc", "acb", "bca"]
NEW = [[0.5], [2.2], [5.1]]


def said(model, rows):
    """Probabilities, an interval of a calibrated model, or mean and standard deviation."""
    if hasattr(model, "predict_proba"):
        return model.predict_proba(rows)
    if hasattr(model, "predict_interval") and getattr(model, "calibrates", False):
        return np.asarray(model.predict_interval(rows, 0.5))
    return np.stack(model.predict(rows, return_std=True))


def exact():
    return s.GPRegressor(n_restarts=0, random_state=0).fit(X, Y), NEW


def sparse():
    return s.GPRegressor(inference="sparse", n_inducing=5, n_restarts=0, random_state=0).fit(X, Y), NEW


def frame():
    pandas = __import__("pandas")
    rows = pandas.DataFrame({"size": X[:, 0], "town": ["Rome", "Oslo", "Bern"] * 4})
    return s.GPClassifier(random_state=0).fit(rows, np.where(Y > 0, "up", "down")), rows.iloc[:4]


def trained(model, rows, targets):
    """A model that has made a few steps."""
    return model.set_params(max_epochs=5, random_state=0).fit(rows, targets)


def autogp():
    return trained(s.AutoGPRegressor(n_inducing=4, n_components=2, covariance="diagonal"), X, Y), NEW


def dkl():
    return trained(s.DKLRegressor(network=[4, 2], grid_size=8, pretrain_epochs=1), X, Y), NEW


def dfgp():
    return s.DFGPRegressor(n_inducing=4, n_hidden=2, max_iterations=3, random_state=0).fit(X, Y), NEW


def gp_drf_texts():
    counts = np.array([word.count("a") for word in WORDS], dtype=float)
    model = s.GPDRFRegressor(k.Spectrum(2), n_inducing=4, n_features=4)
    return trained(model, WORDS, counts), ["abab", "zzz", "caa"]


def conformal():
    return s.ConformalRegressor(exact()[0]).fit(X + 0.1, np.cos(Y)), NEW


MODELS = (exact, sparse, frame, autogp, dkl, dfgp, gp_drf_texts, conformal)


def main():
    for make in MODELS:
        folder = HERE / f"v{FORMAT}_{make.__name__}"
        if folder.exists():
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that training was short
            model, rows = make()
        model.save(folder)
        plain = rows.to_dict("list") if hasattr(rows, "iloc") else rows
        (folder / "expected.json").write_text(json.dumps({"X": plain, "found": said(model, rows).tolist()}))


if __name__ == "__main__":
    main()
