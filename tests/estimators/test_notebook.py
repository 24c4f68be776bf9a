"""What a notebook shows of kernels and estimators: values that are right, text that is escaped, no scripts."""

from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest
from sklearn.pipeline import make_pipeline

from stratagp import ExactGP, GPClassifier, GPRegressor, StrataRegressor
from stratagp import kernels as k

PLAN = ["squared exponential", "boosted trees"]
X = np.linspace(0, 6, 12)[:, None]
Y = np.sin(X[:, 0])


class _Cells(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.rows: list[list[str]] = []
        self.tags: set[str] = set()
        self.inside = False

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.inside = tag == "td"
        if tag == "tr":
            self.rows.append([])
        if tag == "td":
            self.rows[-1].append("")

    def handle_endtag(self, tag):
        self.inside = False

    def handle_data(self, data):
        if self.inside:
            self.rows[-1][-1] += data


def read(html):
    found = _Cells()
    found.feed(html)
    assert found.tags <= {"div", "table", "tr", "th", "td", "code", "br"}
    return {row[0]: row[1:] for row in found.rows if row}


def test_a_kernel_shows_its_values():
    kernel = k.RBF(lengthscale=0.5).fix("lengthscale") + k.Linear(variance=2.0)
    assert read(kernel._repr_html_()) == {
        "0.lengthscale": ["0.5", "fixed"],
        "0.variance": ["1", ""],
        "1.variance": ["2", ""],
    }
    assert read(ExactGP(k.RBF(), noise=0.25)._repr_html_())["noise"] == ["0.25", ""]


@pytest.mark.parametrize("ask", [lambda gp: gp._repr_html_(), lambda gp: gp._repr_mimebundle_()["text/html"]])
def test_a_fitted_model_shows_what_it_has_learnt_and_no_tags_of_others(ask):
    frame = pd.DataFrame({"<script>alert(1)</script>": X[:, 0]})
    gp = GPRegressor(max_iterations=0, n_restarts=0).fit(frame, 100 * Y)
    found = read(ask(gp))
    assert float(found["noise"][0]) == pytest.approx(gp.hyperparameters_["noise"].value, rel=1e-3)
    assert "kernel.lengthscale[<script>alert(1)</script>]" in found
    assert found["noise"][1] == ""
    assert read(ask(gp))["noise"][1] != ""  # standard errors are shown once they are known


def test_looking_at_a_model_does_not_compute_standard_errors(monkeypatch):
    gp = GPRegressor(max_iterations=0, n_restarts=0).fit(X, Y)
    monkeypatch.setattr(type(gp.fitted_), "score", lambda *_: pytest.fail("the score was asked for"))
    read(gp._repr_html_())
    assert "GPRegressor" in make_pipeline(gp)._repr_html_()
    assert "hyperparameters_" not in vars(gp)


def test_before_a_fit_it_is_the_diagram_of_scikit_learn():
    assert "sk-" in GPRegressor()._repr_html_()


def test_other_models():
    classes = GPClassifier(max_iterations=0).fit(X, Y > 0)
    assert "kernel.variance" in read(classes._repr_html_())
    stack = StrataRegressor(plan=PLAN, random_state=0).fit(np.tile(X, (3, 1)), np.tile(Y, 3) + np.linspace(0, 0.1, 36))
    weights = [float(row[0].removesuffix(" %")) for row in read(stack._repr_html_()).values()]
    assert sum(weights) == pytest.approx(100, abs=len(weights))
