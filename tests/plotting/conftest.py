"""Pictures in tests are drawn off screen, and closed after each."""

import pytest


@pytest.fixture(autouse=True)
def off_screen():
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    settings = dict(matplotlib.rcParams)
    yield
    matplotlib.pyplot.close("all")
    assert dict(matplotlib.rcParams) == settings  # no function changes them
