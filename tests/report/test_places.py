"""A date gets its series with a forecast, two coordinates get a map, as the model says when asked by hand."""

import numpy as np
import pytest

from stratagp import GPRegressor
from stratagp.report import write_report
from stratagp.report.results import gather
from tests.report.conftest import PLAINLY, pd


def gathered(X, y):
    model = GPRegressor(n_restarts=0).fit(X, y)
    return model, gather(model, X, y, None, None, **PLAINLY)


def test_a_date_gets_its_series_and_a_forecast(tmp_path):
    days = pd.date_range("2024-01-01", periods=60)
    X = pd.DataFrame({"day": days, "size": np.linspace(0, 1, 60) ** 2})
    model, results = gathered(X, np.sin(np.arange(60) / 9))
    found = results["effects"]["series"]
    assert (found["name"], found["last"], found["dates"][-1]) == ("day", "2024-02-29", "2024-03-11 19:12:00")  # + 20 %
    asked = pd.DataFrame({"day": pd.to_datetime(found["dates"], format="ISO8601"), "size": np.median(X["size"])})
    low, high = model.predict_interval(asked, 0.95)
    assert found["mean"] == pytest.approx(model.predict(asked).tolist(), rel=1e-4, abs=1e-6)
    assert found["low"] == pytest.approx(low.tolist(), rel=1e-4, abs=1e-6)
    assert found["high"] == pytest.approx(high.tolist(), rel=1e-4, abs=1e-6)
    assert "forecast beyond the last row" in write_report(results, tmp_path / "page.html").read_text("utf-8")


def test_two_coordinates_get_a_map(tmp_path):
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"Latitude": rng.uniform(47, 55, 60), "Longitude": rng.uniform(6, 15, 60)})
    model, results = gathered(X, X.Latitude - X.Longitude)
    found = results["effects"]["map"]
    assert found["names"] == ["Longitude", "Latitude"]
    mean = np.reshape(found["mean"], (len(found["north"]), len(found["east"])))
    at = pd.DataFrame({"Latitude": [found["north"][3]], "Longitude": [found["east"][7]]})
    assert mean[3, 7] == pytest.approx(model.predict(at)[0], rel=1e-4)
    assert "Predictions over the map." in write_report(results, tmp_path / "page.html").read_text("utf-8")
    assert results["effects"]["series"] is None
