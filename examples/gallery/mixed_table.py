"""A table with words, dates and gaps.

Frames go in as they are: words are categories, dates become days and seasons, and `missing="impute"` averages over
what a missing value may have been. The error bars of rows with gaps are wider.
"""

import numpy as np
import pandas as pd

from stratagp import GPRegressor

rng = np.random.default_rng(0)
table = pd.DataFrame(
    {
        "day": pd.date_range("2024-01-01", periods=100, freq="5D"),
        "town": rng.choice(["Bonn", "Oslo", "Rome"], 100),
        "wind": np.where(rng.random(100) < 0.2, np.nan, rng.gamma(2.0, 3.0, 100)),
    }
)
heat = 12 + 9 * np.sin(2 * np.pi * (table.day.dt.day_of_year - 105) / 365) + 6 * (table.town == "Rome")
heat = heat - 0.6 * table.wind.fillna(6.0) + rng.normal(size=100)

gp = GPRegressor(missing="impute").fit(table, heat)
for name, share in zip(table, gp.relevance_, strict=True):
    print(f"{name:5} {share:4.0%} of the prediction")
new = pd.DataFrame({"day": pd.to_datetime(["2025-07-01"] * 2), "town": "Rome", "wind": [6.0, np.nan]})
mean, std = gp.predict(new, return_std=True)
print(f"wind known:   {mean[0]:.0f} ± {std[0]:.1f} degrees")
print(f"wind unknown: {mean[1]:.0f} ± {std[1]:.1f} degrees")
