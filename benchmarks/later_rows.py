"""Later rows of dated tables: what is said about the last fifth of the rows by models of those before it.

Beside the stack that is told the column of dates (`order`): the same stack without it, boosting with the deviation of
its errors in random folds, CatBoost with its own deviations, and one Gaussian of all earlier targets. `--validation`
prints what is said about the fifth before the last by models of the first three fifths, and stores nothing: settings
were chosen there.

    STRATAGP_DATA=… python benchmarks/later_rows.py
    STRATAGP_DATA=… python benchmarks/later_rows.py --validation --only nile
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

import datasets
from harness import Benchmark, Skip, command_line, peer
from stratagp import StrataRegressor
from table_contestants import REGRESSORS, Asked, Gaussians
from table_scores import of_numbers

QUICK = ("nile",)
TIME_LIMIT = 60.0
FIFTHS = 5

Frame = pd.DataFrame
Rows = tuple[Frame, np.ndarray]


def of_series(item: str) -> Frame:
    """A time series of R, whose times are years and fractions of years."""
    frame = datasets.from_r("datasets", item)
    months = np.round(12 * (frame.time.to_numpy(float) - 1970)).astype(int)
    return Frame({"date": np.datetime64("1970-01", "M") + months, "value": frame.value.astype(float)})


def co2() -> Frame:
    found = datasets.classic("co2_weekly")
    frame = Frame({"date": pd.to_datetime(found["date"].astype(int).astype(str)), "value": found["co2"]})
    return frame.dropna().groupby(frame.date.dt.to_period("M")).mean().reset_index(drop=True)


def elnino() -> Frame:
    found = Frame(datasets.classic("elnino")).melt("YEAR", var_name="month")
    dates = pd.to_datetime(found.YEAR.astype(int).astype(str) + found.month, format="%Y%b")
    return found.assign(date=dates)[["date", "value"]]


def airquality() -> Frame:
    frame = Frame(datasets.classic("airquality")).dropna()
    frame["date"] = pd.to_datetime({"year": 1973, "month": frame.pop("Month"), "day": frame.pop("Day")})
    return frame.rename(columns={"Ozone": "value"})


def economics() -> Frame:
    return datasets.from_r("ggplot2", "economics").rename(columns={"unemploy": "value"})


def quarters() -> Frame:
    frame = datasets.from_r("AER", "USMacroG").dropna()
    dates = pd.period_range("1950Q2", periods=len(frame), freq="Q").to_timestamp()
    return frame.drop(columns=["inflation", "interest"]).assign(date=dates).rename(columns={"unemp": "value"})


def shares() -> Frame:
    frame = datasets.from_r("datasets", "EuStockMarkets").iloc[::4]
    dates = pd.bdate_range("1991-07-01", periods=4 * len(frame))[::4]
    return frame.assign(date=dates).rename(columns={"DAX": "value"})


def ridership() -> Frame:
    frame = datasets.from_r("modeldata", "Chicago").rename(columns={"ridership": "value"})
    return frame.iloc[-1500:]


TABLES: dict[str, Callable[[], Frame]] = {
    "economics": economics,
    "passengers": lambda: of_series("AirPassengers"),
    "nile": lambda: of_series("Nile"),
    "sunspots": lambda: of_series("sunspot.year"),
    "drivers": lambda: of_series("UKDriverDeaths"),
    "nottem": lambda: of_series("nottem"),
    "gas": lambda: of_series("UKgas"),
    "lake": lambda: of_series("LakeHuron"),
    "co2": co2,
    "elnino": elnino,
    "airquality": airquality,
    "unemployment": quarters,
    "shares": shares,
    "ridership": ridership,
}


def parts(name: str, validation: bool) -> tuple[Rows, Rows]:
    """Rows to learn from and later ones."""
    frame = TABLES[name]()
    frame = frame.assign(date=pd.to_datetime(frame.date)).sort_values("date", ignore_index=True)
    n = len(frame)
    first, last = (3 * n // FIFTHS, 4 * n // FIFTHS) if validation else (4 * n // FIFTHS, n)
    X, y = frame.drop(columns="value"), frame.value.to_numpy(float)
    return (X.iloc[:first], y[:first]), (X.iloc[first:last], y[first:last])


def as_numbers(X: Frame) -> Frame:
    """For those that know no dates: days, and where the year and the week are."""
    date = X.date
    return X.assign(
        date=(date - pd.Timestamp("1970")).dt.days.astype(float), month=date.dt.month, day=date.dt.dayofweek
    )


def stack(**options: Any) -> Callable[[Frame, np.ndarray, Frame], Any]:
    def answer(X: Frame, y: np.ndarray, new: Frame) -> Any:
        model = StrataRegressor(TIME_LIMIT, random_state=0, targets="numbers", **options)
        return Asked(model.fit(X, y), new)

    return answer


def peers(name: str) -> Callable[[Frame, np.ndarray, Frame], Any]:
    def answer(X: Frame, y: np.ndarray, new: Frame) -> Any:
        return REGRESSORS[name].fit(as_numbers(X), y)(as_numbers(new))

    return answer


def average(X: Frame, y: np.ndarray, new: Frame) -> Gaussians:
    return Gaussians(np.full(len(new), y.mean()), np.full(len(new), y.std()))


WHO: dict[str, Callable[[Frame, np.ndarray, Frame], Any]] = {
    "stack in order": stack(order="date"),
    "stack": stack(),
    "CatBoost": peers("CatBoost"),
    "boosting": peers("HistGradientBoosting"),
    "average": average,
}


def measured(name: str, who: str, validation: bool) -> dict[str, Any]:
    """Scores in units of the deviation of the targets that were learnt from."""
    if who == "CatBoost":
        peer("catboost")
    warnings.simplefilter("ignore")
    (X, y), (new, truth) = parts(name, validation)
    found = of_numbers(WHO[who](X, y, new), truth, float(y.std()))
    return {**{key: float(f"{value:.5g}") for key, value in found.items()}, "rows": len(y), "tested": len(truth)}


def shown(found: dict[str, dict[str, Any]], measure: str) -> list[dict[str, str]]:
    """A row for each table, and the average."""
    names = [name for name in TABLES if any(key.startswith(f"{name}, ") for key in found)]
    lines, every = [], {who: list[float]() for who in WHO}
    for name in names:
        values = {who: found[f"{name}, {who}"][measure] for who in WHO if f"{name}, {who}" in found}
        for who, value in values.items():
            every[who].append(value)
        lines.append({"table": name, **{who: f"{value:.2f}" for who, value in values.items()}})
    full = {who: values for who, values in every.items() if len(values) == len(names)}
    return [*lines, {"table": "average", **{who: f"{np.mean(values):.2f}" for who, values in full.items()}}]


def options() -> argparse.Namespace:
    parser = command_line(__doc__)
    parser.add_argument("--validation", action="store_true", help="print the scores of the fifth before the last")
    parser.add_argument("--only", type=lambda text: text.split(","), help="names of tables and of models, with commas")
    given = parser.parse_args()
    if unknown := set(given.only or ()) - {*TABLES, *WHO}:
        parser.error(f"there is no {', '.join(sorted(unknown))}; tables: {', '.join(TABLES)}; models: {'; '.join(WHO)}")
    return given


def main() -> None:
    given = options()
    only = set(given.only or ())
    names = [n for n in (QUICK if given.quick else TABLES) if not only & TABLES.keys() or n in only]
    whose = [who for who in WHO if not only & WHO.keys() or who in only]
    bench = Benchmark("later_rows", given.quick, given.fresh, given.threads, markdown=given.markdown)
    found = {}
    for name in list(TABLES) if given.markdown else names:
        for who in WHO if given.markdown else whose:
            key = f"{name}, {who}"
            try:
                row = (
                    measured(name, who, True)
                    if given.validation
                    else bench.row(key, lambda name=name, who=who: measured(name, who, False))
                )
            except Skip:
                continue
            if row is not None:
                found[key] = row
                if given.validation:
                    print(key, {m: row[m] for m in ("nlpd", "rmse", "inside_80", "inside_95")}, flush=True)
    for measure, title in (("nlpd", "NLPD"), ("rmse", "RMSE"), ("inside_95", "share of rows in the 95 % interval")):
        if found:
            bench.show(title, shown(found, measure))


if __name__ == "__main__":
    main()
