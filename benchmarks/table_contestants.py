"""Who is measured on tables, and how each is used: with its defaults, and as many trees as held-out rows ask for.

- StrataRegressor, StrataClassifier: 60 seconds. GPRegressor, GPClassifier: as they are; they do without texts.
- CatBoost: ``RMSEWithUncertainty``, its own deviations; for classes its log loss. CatBoost RMSE: the plain loss, which
  has smaller errors, and the deviation of those on held-out rows. NGBoost: a normal, or k categories. They take the
  number of trees that a fifth of the rows, held out, likes best, and learn again from all rows.
- LightGBM: the mean of the numbers of trees that five folds like best. HistGradientBoosting: as it is. Around both a
  Gaussian with the deviation of the errors in the folds.
- GPBoost: a process with a Matérn-3/2 kernel and a lengthscale for each column; above 1,000 rows by 20 neighbours.

Categories stay what they are for those who know them and are one-hot for others; a text becomes counts of the 300 most
frequent pieces of one to three letters. Targets are standardised for all but ours, who do that themselves.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd
from scipy import stats
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.model_selection import KFold, StratifiedKFold, cross_val_predict, train_test_split

from harness import Skip, peer

THREADS = int(os.environ.get("OMP_NUM_THREADS", "2"))
TIME_LIMIT = 60.0  # seconds for those of ours that take one
PATIENCE, MOST_TREES = 50, 2000
EXACT_ROWS = 1000
PIECES = 300
SMALLEST = 1e-6  # deviation of a standardised target

Frame = pd.DataFrame
Form = Literal["frame", "no text", "categories", "one-hot"]


@dataclass(frozen=True)
class Gaussians:
    """One Gaussian for each row."""

    mean: np.ndarray
    std: np.ndarray

    def interval(self) -> tuple[np.ndarray, np.ndarray]:
        """Ends of the central 95 %."""
        low, high = self.quantiles(np.array([0.025, 0.975])).T
        return low, high

    def log_density(self, y: np.ndarray) -> np.ndarray:
        """Of each target."""
        return stats.norm.logpdf(y, self.mean, self.std)

    def quantiles(self, levels: np.ndarray) -> np.ndarray:
        """A column for each level."""
        return self.mean[:, None] + self.std[:, None] * stats.norm.ppf(levels)


class Asked:
    """What one of our models says about rows: any distribution."""

    def __init__(self, model: Any, X: Any) -> None:
        self.model, self.X, self.mean = model, X, model.predict(X)

    def interval(self) -> tuple[np.ndarray, np.ndarray]:
        """Ends of the central 95 %."""
        return self.model.predict_interval(self.X, 0.95)

    def log_density(self, y: np.ndarray) -> np.ndarray:
        """Of each target."""
        return self.model.log_density(self.X, y)

    def quantiles(self, levels: np.ndarray) -> np.ndarray:
        """A column for each level."""
        return self.model.predict_quantiles(self.X, levels)


Answer = Gaussians | Asked | np.ndarray  # of classes: probabilities
Fit = Callable[[Frame, np.ndarray], Callable[[Frame], Answer]]


class Contestant(NamedTuple):
    """A library, in which form it takes rows, and how it learns from them."""

    needs: str  # a package, or a name of ours
    form: Form
    fit: Fit

    def missing(self) -> str | None:
        """Why it cannot take part here."""
        if self.needs.startswith("stratagp."):
            has = hasattr(importlib.import_module("stratagp"), self.needs.partition(".")[2])
            return None if has else f"{self.needs} does not exist"
        try:
            peer(self.needs)
        except Skip as reason:
            return str(reason)
        return None


# The forms of rows


def in_form(form: Form, X: Frame, X_test: Frame, text: tuple[str, ...]) -> tuple[Frame, Frame]:
    """Training and test rows as a contestant takes them."""
    if form == "frame":
        return X, X_test
    train, test = X.drop(columns=list(text)), X_test.drop(columns=list(text))
    if form == "no text":
        return train, test
    for column in text:
        counter = CountVectorizer(analyzer="char", lowercase=False, ngram_range=(1, 3), max_features=PIECES)
        seen = counter.fit_transform(X[column]).toarray(), counter.transform(X_test[column]).toarray()
        pieces = [Frame(counts.astype(float)).add_prefix(f"{column} ") for counts in seen]
        train, test = pd.concat([train, pieces[0]], axis=1), pd.concat([test, pieces[1]], axis=1)
    if form == "one-hot":
        train, test = (pd.get_dummies(rows, dtype=float) for rows in (train, test))
    names = [f"c{i}" for i in range(train.shape[1])]  # some libraries refuse signs in names
    return train.set_axis(names, axis=1), test.set_axis(names, axis=1)


# Ours


def ours(name: str, **options: Any) -> Fit:
    def fit(X: Frame, y: np.ndarray) -> Callable[[Frame], Answer]:
        model = getattr(importlib.import_module("stratagp"), name)(random_state=0, **options).fit(X, y)
        return lambda new: model.predict_proba(new) if hasattr(model, "predict_proba") else Asked(model, new)

    return fit


# Peers


def standardised(fit: Callable[[Frame, np.ndarray], Callable[[Frame], tuple[np.ndarray, Any]]]) -> Fit:
    """Of a library that answers with means and deviations: in the units of the target, whatever these are."""

    def scaled(X: Frame, y: np.ndarray) -> Callable[[Frame], Answer]:
        centre, scale = y.mean(), y.std()
        predict = fit(X, (y - centre) / scale)

        def answer(new: Frame) -> Gaussians:
            mean, std = predict(new)
            std = np.broadcast_to(np.maximum(std, SMALLEST), mean.shape)
            return Gaussians(centre + scale * mean, scale * std)

        return answer

    return scaled


def fifth(X: Frame, y: np.ndarray, classes: bool) -> list[Any]:
    """Rows to learn from, rows to stop by, and their targets."""
    return train_test_split(X, y, test_size=0.2, random_state=0, stratify=y if classes else None)


def catboost_model(X: Frame, y: np.ndarray, loss: str) -> tuple[Any, float]:
    """The model of all rows, and the deviation of the errors on the fifth that chose the number of trees."""
    module, classes = peer("catboost"), loss in ("Logloss", "MultiClass")
    made = module.CatBoostClassifier if classes else module.CatBoostRegressor
    options: dict[str, Any] = {
        "loss_function": loss,
        "cat_features": [c for c in X if X[c].dtype == "category"],
        "random_seed": 0,
        "thread_count": THREADS,
        "verbose": False,
        "allow_writing_files": False,
    }
    train, held, y_train, y_held = fifth(X, y, classes)
    trial = made(iterations=MOST_TREES, early_stopping_rounds=PATIENCE, **options)
    trial.fit(train, y_train, eval_set=(held, y_held))
    std = 0.0 if classes else float(np.sqrt(np.mean((y_held - trial.predict(held).reshape(len(held), -1)[:, 0]) ** 2)))
    options["learning_rate"] = trial.learning_rate_  # which it would else set by the number of trees
    return made(iterations=max(trial.tree_count_, 1), **options).fit(X, y), std


def catboost(X: Frame, y: np.ndarray) -> Callable[[Frame], tuple[np.ndarray, np.ndarray]]:
    model, _ = catboost_model(X, y, "RMSEWithUncertainty")

    def answer(new: Frame) -> tuple[np.ndarray, np.ndarray]:
        mean, var = model.predict(new, prediction_type="RMSEWithUncertainty").T
        return mean, np.sqrt(var)

    return answer


def catboost_rmse(X: Frame, y: np.ndarray) -> Callable[[Frame], tuple[np.ndarray, float]]:
    model, std = catboost_model(X, y, "RMSE")
    return lambda new: (model.predict(new), std)


def catboost_classes(X: Frame, y: np.ndarray) -> Callable[[Frame], Answer]:
    return catboost_model(X, y, "Logloss" if y.max() == 1 else "MultiClass")[0].predict_proba


def ngboost_model(X: Frame, y: np.ndarray, classes: bool) -> Any:
    module = peer("ngboost")
    options: dict[str, Any] = {"random_state": 0, "verbose": False}
    made = module.NGBClassifier if classes else module.NGBRegressor
    if classes:
        options["Dist"] = peer("ngboost.distns").k_categorical(int(y.max()) + 1)
    train, held, y_train, y_held = fifth(X, y, classes)
    trial = made(n_estimators=MOST_TREES, **options)
    trial.fit(train.values, y_train, X_val=held.values, Y_val=y_held, early_stopping_rounds=PATIENCE)
    trees = trial.best_val_loss_itr + 1 if trial.best_val_loss_itr is not None else MOST_TREES
    return made(n_estimators=trees, **options).fit(X.values, y)


def ngboost(X: Frame, y: np.ndarray) -> Callable[[Frame], tuple[np.ndarray, np.ndarray]]:
    model = ngboost_model(X, y, classes=False)

    def answer(new: Frame) -> tuple[np.ndarray, np.ndarray]:
        found = model.pred_dist(new.values)
        return found.loc, found.scale

    return answer


def ngboost_classes(X: Frame, y: np.ndarray) -> Callable[[Frame], Answer]:
    model = ngboost_model(X, y, classes=True)
    return lambda new: model.predict_proba(new.values)


def lightgbm_model(X: Frame, y: np.ndarray, classes: bool) -> tuple[Any, float]:
    """The model of all rows, and the deviation of the errors of its folds."""
    module = peer("lightgbm")
    made = module.LGBMClassifier if classes else module.LGBMRegressor
    options = {"learning_rate": 0.05, "random_state": 0, "n_jobs": THREADS, "verbose": -1}
    folds = (StratifiedKFold if classes else KFold)(5, shuffle=True, random_state=0)
    trees, errors = [], np.zeros(len(y))
    for train, held in folds.split(X, y):
        rows = X.iloc[held]
        stop = [module.early_stopping(PATIENCE, verbose=False)]
        trial = made(n_estimators=MOST_TREES, **options)
        trial.fit(X.iloc[train], y[train], eval_set=[(rows, y[held])], callbacks=stop)
        trees.append(trial.best_iteration_ or MOST_TREES)
        errors[held] = 0.0 if classes else y[held] - trial.predict(rows)
    model = made(n_estimators=max(round(np.mean(trees)), 1), **options).fit(X, y)
    return model, float(np.sqrt(np.mean(errors**2)))


def lightgbm(X: Frame, y: np.ndarray) -> Callable[[Frame], tuple[np.ndarray, float]]:
    model, std = lightgbm_model(X, y, classes=False)
    return lambda new: (model.predict(new), std)


def lightgbm_classes(X: Frame, y: np.ndarray) -> Callable[[Frame], Answer]:
    return lightgbm_model(X, y, classes=True)[0].predict_proba


def hist(X: Frame, y: np.ndarray) -> Callable[[Frame], tuple[np.ndarray, float]]:
    model = HistGradientBoostingRegressor(random_state=0)
    errors = y - cross_val_predict(model, X, y, cv=KFold(5, shuffle=True, random_state=0))
    std, model = float(np.sqrt(np.mean(errors**2))), model.fit(X, y)
    return lambda new: (model.predict(new), std)


def hist_classes(X: Frame, y: np.ndarray) -> Callable[[Frame], Answer]:
    return HistGradientBoostingClassifier(random_state=0).fit(X, y).predict_proba


def gpboost_model(X: Frame, y: np.ndarray, likelihood: str) -> Callable[[Frame], tuple[np.ndarray, np.ndarray]]:
    centre, spread = X.values.mean(0), X.values.std(0)
    spread = np.where(spread > 0, spread, 1.0)
    many = len(y) > EXACT_ROWS
    model = peer("gpboost").GPModel(
        gp_coords=(X.values - centre) / spread,
        cov_function="matern_ard",
        cov_fct_shape=1.5,
        likelihood=likelihood,
        gp_approx="vecchia" if many else "none",
        num_neighbors=20 if many else None,
        seed=0,
    )
    model.fit(y=y, X=np.ones((len(y), 1)))

    def answer(new: Frame) -> tuple[np.ndarray, np.ndarray]:
        points, ones = (new.values - centre) / spread, np.ones((len(new), 1))
        found = model.predict(gp_coords_pred=points, X_pred=ones, predict_var=True, predict_response=True)
        return found["mu"], np.sqrt(found["var"])

    return answer


def gpboost(X: Frame, y: np.ndarray) -> Callable[[Frame], tuple[np.ndarray, np.ndarray]]:
    return gpboost_model(X, y, "gaussian")


def gpboost_classes(X: Frame, y: np.ndarray) -> Callable[[Frame], Answer]:
    if y.max() > 1:
        raise ValueError("GPBoost knows two classes")
    model = gpboost_model(X, y, "bernoulli_logit")

    def probabilities(new: Frame) -> np.ndarray:
        second = model(new)[0]
        return np.stack([1 - second, second], 1)

    return probabilities


LIMITED = {"time_limit": TIME_LIMIT}
REGRESSORS = {
    "StrataRegressor": Contestant("stratagp.StrataRegressor", "frame", ours("StrataRegressor", **LIMITED)),
    "GPRegressor": Contestant("stratagp.GPRegressor", "no text", ours("GPRegressor")),
    "CatBoost": Contestant("catboost", "categories", standardised(catboost)),
    "CatBoost RMSE": Contestant("catboost", "categories", standardised(catboost_rmse)),
    "NGBoost": Contestant("ngboost", "one-hot", standardised(ngboost)),
    "LightGBM": Contestant("lightgbm", "categories", standardised(lightgbm)),
    "HistGradientBoosting": Contestant("sklearn", "categories", standardised(hist)),
    "GPBoost": Contestant("gpboost", "one-hot", standardised(gpboost)),
}
CLASSIFIERS = {
    "StrataClassifier": Contestant("stratagp.StrataClassifier", "frame", ours("StrataClassifier", **LIMITED)),
    "GPClassifier": Contestant("stratagp.GPClassifier", "no text", ours("GPClassifier")),
    "CatBoost": Contestant("catboost", "categories", catboost_classes),
    "NGBoost": Contestant("ngboost", "one-hot", ngboost_classes),
    "LightGBM": Contestant("lightgbm", "categories", lightgbm_classes),
    "HistGradientBoosting": Contestant("sklearn", "categories", hist_classes),
    "GPBoost": Contestant("gpboost", "one-hot", gpboost_classes),
}
CONTESTANTS = {"regression": REGRESSORS, "classification": CLASSIFIERS}
