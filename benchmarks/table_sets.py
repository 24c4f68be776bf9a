"""Tables with one target each, ready for every contestant alike: where they come from, and their splits.

Columns that name a row or give the target away are left out, and so are rows without a number. Words and codes become
categories: a gap is a category too, and categories of fewer than ten rows are one, "other", so that no test row holds
one that training has not seen. Numbers stay in their units. Class labels are codes from 0. Of equal rows one is kept:
who interpolates would be told the answer (23 % of the test rows of winequality_red and meats). They stay in
:data:`CASES`, where columns are so coarse that equal rows are different cases, and in the standard splits, where 19 %
of the test rows of wine and 7 % of those of concrete and protein stand in training too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
import pandas as pd
from sklearn import datasets as scikit
from sklearn.model_selection import KFold, StratifiedKFold

import datasets

FOLDS, STANDARD = 5, 10  # splits of a table; of one with standard splits
FEWEST = 10  # rows of a category of its own
CASES = ("DoctorVisits", "biopsy", "Titanic")

Task = Literal["regression", "classification"]
Frame = pd.DataFrame


class Parts(NamedTuple):
    """Rows to learn from and rows to be judged on."""

    X: Frame
    y: np.ndarray
    X_test: Frame
    y_test: np.ndarray


@dataclass(frozen=True)
class TableSet:
    """A table: how its frame is read, which column is the target, and who published it under which licence."""

    load: Callable[[], Frame]
    target: str
    source: str
    task: Task = "regression"
    text: tuple[str, ...] = ()  # columns that stay texts
    standard: bool = False  # whether it has ten standard splits

    @property
    def splits(self) -> int:
        """How many there are."""
        return STANDARD if self.standard else FOLDS


LICENCES = {
    "AER": "GPL-2 or 3",
    "DAAG": "GPL-3",
    "Ecdat": "GPL-2 or later",
    "ISLR": "GPL-2",
    "MASS": "GPL-2 or 3",
    "carData": "GPL-2 or later",
    "modeldata": "MIT",
    "palmerpenguins": "CC0",
}


def of_r(
    package: str,
    items: str,
    target: str,
    drop: Sequence[str] = (),
    codes: Sequence[str] = (),
    task: Task = "regression",
) -> TableSet:
    """Items of an R package, one below the other; ``codes`` are numbers that stand for categories."""

    def load() -> Frame:
        frame = pd.concat([datasets.from_r(package, item) for item in items.split()], ignore_index=True)
        return frame.drop(columns=list(drop)).astype(dict.fromkeys(codes, str))

    return TableSet(load, target, f"R package {package} {LICENCES[package]}: {items}", task)


def of_classes(package: str, items: str, target: str, drop: Sequence[str] = (), codes: Sequence[str] = ()) -> TableSet:
    return of_r(package, items, target, drop, codes, "classification")


def of_scikit(name: str, task: Task = "classification") -> TableSet:
    def load() -> Frame:
        return getattr(scikit, f"load_{name}")(as_frame=True).frame

    return TableSet(load, "target", f"scikit-learn, BSD-3: load_{name}", task)


def standard(name: str) -> TableSet:
    def load() -> Frame:
        split = datasets.uci_regression(name)
        return numbered(np.vstack([split.X_train, split.X_test]), np.concatenate([split.y_train, split.y_test]))

    return TableSet(load, "target", "UCI through uci_datasets, MIT", standard=True)


def numbered(X: np.ndarray, y: np.ndarray) -> Frame:
    """Columns ``x0`` and so on, and the target."""
    return Frame(X, columns=[f"x{i}" for i in range(X.shape[1])]).assign(target=np.ravel(y))


def extra(name: str) -> Callable[[], Frame]:
    def load() -> Frame:
        X, y = datasets.uci_extra(name)
        return numbered(X, y[:, 0] if y.ndim == 2 else y)

    return load


def abalone() -> Frame:
    X, y = datasets.uci_extra("abalone")
    return numbered(X[:, 3:], y).assign(sex=X[:, :3].argmax(1).astype(str))


def sarcos() -> Frame:
    X, torques = datasets.sarcos()
    return numbered(X, torques[:, 0])


def esol() -> Frame:
    return Frame(datasets.esol()).drop(columns=["Compound ID", "ESOL predicted log solubility in mols per litre"])


def classic(name: str, rows: int | None = None) -> Callable[[], Frame]:
    def load() -> Frame:
        frame = Frame(datasets.classic(name))
        return frame if rows is None else frame.sample(rows, random_state=0)

    return load


def meuse() -> Frame:
    frame = Frame(datasets.geostat("meuse")).drop(columns=["cadmium", "copper", "lead", "dist.m"])
    return frame.astype({"ffreq": str, "soil": str, "lime": str})


def jura() -> Frame:
    frame = pd.concat([Frame(datasets.geostat(part)) for part in ("jura_pred", "jura_val")], ignore_index=True)
    return frame[["Xloc", "Yloc", "Landuse", "Rock", "Cd"]]


def spam() -> Frame:
    split = datasets.gp_drf_fold("spam")
    return numbered(np.vstack([split.X_train, split.X_test]), np.concatenate([split.y_train, split.y_test]))


def adult() -> Frame:
    table = datasets.adult()
    frame = Frame(table.X, columns=table.columns).assign(income=table.y)
    return frame.astype(dict.fromkeys(table.categories, str)).sample(5000, random_state=0)


def sequences(name: str) -> Callable[[], Frame]:
    def load() -> Frame:
        found = datasets.sequences(name)
        return Frame([list(each) for each in found["sequence"]]).add_prefix("at").assign(label=found["label"])

    return load


def crabs() -> Frame:
    frame = datasets.from_r("MASS", "crabs").drop(columns="index")
    return frame.assign(kind=frame.pop("sp") + frame.pop("sex"))


HAND_MADE = {
    "winequality_red": TableSet(extra("winequality_red"), "target", "UCI, CC BY 4.0"),
    "abalone": TableSet(abalone, "target", "UCI, CC BY 4.0"),
    "powerplant": TableSet(extra("powerplant"), "target", "UCI, CC BY 4.0"),
    "naval": TableSet(extra("naval"), "target", "UCI, CC BY 4.0: compressor decay"),
    "sarcos": TableSet(sarcos, "target", "Vijayakumar and Schaal, public: the first torque, test file"),
    "esol": TableSet(esol, "solubility", "Delaney 2004, public: columns and SMILES", text=("smiles",)),
    "quakes": TableSet(classic("quakes"), "mag", "R datasets, GPL-2 or 3"),
    "diamonds": TableSet(classic("diamonds", 5000), "price", "R package ggplot2, MIT: 5,000 rows"),
    "airquality": TableSet(classic("airquality"), "Ozone", "R datasets, GPL-2 or 3"),
    "meuse": TableSet(meuse, "zinc", "R package sp, GPL-2 or later"),
    "jura": TableSet(jura, "Cd", "R package gstat, GPL-2 or later"),
    "diabetes": of_scikit("diabetes", "regression"),
}

OF_R = {
    "CPS1985": of_r("AER", "CPS1985", "wage"),
    "PSID1982": of_r("AER", "PSID1982", "wage"),
    "HousePrices": of_r("AER", "HousePrices", "price"),
    "TeachingRatings": of_r("AER", "TeachingRatings", "eval", ["prof"]),
    "CASchools": of_r("AER", "CASchools", "math", ["district", "school", "read"]),
    "DoctorVisits": of_r("AER", "DoctorVisits", "visits"),
    "Hitters": of_r("ISLR", "Hitters", "Salary"),
    "Carseats": of_r("ISLR", "Carseats", "Sales"),
    "College": of_r("ISLR", "College", "Outstate"),
    "Credit": of_r("ISLR", "Credit", "Balance", ["ID"]),
    "Wage": of_r("ISLR", "Wage", "wage", ["logwage"]),
    "cpus": of_r("MASS", "cpus", "perf", ["name", "estperf"]),
    "birthwt": of_r("MASS", "birthwt", "bwt", ["low"], ["race"]),
    "Cars93": of_r(
        "MASS",
        "Cars93",
        "Price",
        ["Manufacturer", "Model", "Make", "Min.Price", "Max.Price", "Rear.seat.room", "Luggage.room"],
    ),
    "Salaries": of_r("carData", "Salaries", "salary"),
    "Computers": of_r("Ecdat", "Computers", "price"),
    "ais": of_r("DAAG", "ais", "pcBfat", ["ssf", "lbm"]),
    "meats": of_r("modeldata", "meats", "protein", ["water", "fat"]),
    "ames": of_r("modeldata", "ames", "Sale_Price"),
}

OF_CLASSES = {
    "iris": of_scikit("iris"),
    "cultivars": of_scikit("wine"),
    "breast_cancer": of_scikit("breast_cancer"),
    "digits": of_scikit("digits"),
    "spam": TableSet(spam, "target", "UCI, CC BY 4.0", "classification"),
    "adult": TableSet(adult, "income", "UCI, CC BY 4.0: 5,000 rows", "classification"),
    "promoters": TableSet(sequences("promoters"), "label", "UCI, CC BY 4.0", "classification"),
    "splice": TableSet(sequences("splice"), "label", "UCI, CC BY 4.0", "classification"),
    "crabs": TableSet(crabs, "kind", "R package MASS, GPL-2 or 3: species and sex", "classification"),
    "HMDA": of_classes("AER", "HMDA", "deny"),
    "CreditCard": of_classes("AER", "CreditCard", "card", ["expenditure", "share"]),
    "SwissLabor": of_classes("AER", "SwissLabor", "participation"),
    "PSID1976": of_classes("AER", "PSID1976", "participation", ["hours", "wage", "repwage", "fincome", "tax"]),
    "Pima": of_classes("MASS", "Pima.tr Pima.te", "type"),
    "biopsy": of_classes("MASS", "biopsy", "class", ["ID"]),
    "fgl": of_classes("MASS", "fgl", "type"),
    "OJ": of_classes("ISLR", "OJ", "Purchase", ["STORE", "Store7"], ["StoreID"]),
    "BEPS": of_classes("carData", "BEPS", "vote"),
    "Titanic": of_classes("carData", "TitanicSurvival", "survived"),
    "penguins": of_classes("palmerpenguins", "penguins", "species", ["island", "year"]),
    "attrition": of_classes("modeldata", "attrition", "Attrition"),
    "churn": of_classes("modeldata", "mlc_churn", "churn"),
    "cells": of_classes("modeldata", "cells", "class", ["case"]),
}

TABLES: dict[str, TableSet] = {
    **{name: standard(name) for name in datasets.UCI_REGRESSION},
    **HAND_MADE,
    **OF_R,
    **OF_CLASSES,
}


def parts(name: str, split: int) -> Parts:
    """One split of a table."""
    table = TABLES[name]
    if not 0 <= split < table.splits:
        raise ValueError(f"split must be 0 to {table.splits - 1}, got {split}")
    if table.standard:
        found = datasets.uci_regression(name, split)
        train, test = numbered(found.X_train, found.y_train), numbered(found.X_test, found.y_test)
        return Parts(train, np.asarray(train.pop("target")), test, np.asarray(test.pop("target")))
    X, y = prepared(table, name in CASES)
    folds = (StratifiedKFold if table.task == "classification" else KFold)(FOLDS, shuffle=True, random_state=0)
    train, test = list(folds.split(X, y))[split]
    return Parts(X.iloc[train].reset_index(drop=True), y[train], X.iloc[test].reset_index(drop=True), y[test])


def prepared(table: TableSet, with_copies: bool = False) -> tuple[Frame, np.ndarray]:
    """Columns and target, without what no contestant could use."""
    frame = table.load()
    numbers = [column for column in frame if pd.api.types.is_numeric_dtype(frame[column])]
    frame = frame.dropna(subset=[*numbers, table.target])
    frame = (frame if with_copies else frame.drop_duplicates()).reset_index(drop=True)
    y = frame.pop(table.target)
    columns = {c: frame[c].astype(str) if c in table.text else column_of(frame[c]) for c in frame}
    X = Frame({c: values for c, values in columns.items() if values.nunique() > 1})
    return X, np.unique(y, return_inverse=True)[1] if table.task == "classification" else np.asarray(y, float)


def column_of(values: pd.Series) -> pd.Series:
    """Numbers as float64, everything else as categories with enough rows each."""
    if pd.api.types.is_numeric_dtype(values) and values.dtype != bool:
        return values.astype(np.float64)
    words = values.astype(object).where(values.notna(), "missing").astype(str)
    counts = words.value_counts()
    rare = counts[counts < FEWEST]
    words = words.mask(words.isin(rare.index), "other" if rare.sum() >= FEWEST else counts.index[0])
    return words.astype("category")
