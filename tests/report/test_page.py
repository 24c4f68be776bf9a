"""The page says what the results say, in sentences that depend on them, and nothing of it runs."""

import copy
import json
import re
from html.parser import HTMLParser
from itertools import pairwise

import numpy as np
import pytest

from stratagp.errors import InputError
from stratagp.report import words, write_report
from stratagp.report.values import number, percent
from stratagp.report.words import score_table

VOID = {"meta", "br", "img", "use", "path", "rect", "link", "hr", "input"}


class Reader(HTMLParser):
    """Elements in order, and the visible text."""

    def __init__(self, page):
        super().__init__()
        self.elements, self.open, self.text = [], [], []
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_data(self, data):
        if not {"style", "title"} & set(self.open):
            self.text.append(data)

    def all(self, tag):
        return [attributes for name, attributes in self.elements if name == tag]


def page_of(results, tmp_path):
    return write_report(results, tmp_path / "page.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("share", "shown"),
    [
        (0.9996, "> 99.9 %"),
        (0.9994, "99.9 %"),
        (1.0, "100 %"),
        (1.5, "150 %"),
        (1234.5, "123,450 %"),
        (0.0999, "9.99 %"),
        (2e-7, "< 0.001 %"),
        (-2e-7, "> −0.001 %"),
        (-0.25, "−25 %"),
        (float("nan"), "–"),
    ],
)
def test_percents_are_written_out(share, shown):
    assert percent(share) == shown


def test_few_digits_do_not_reach_all():
    assert [percent(share, 2) for share in (0.996, 0.123, 1.0)] == ["> 99 %", "12 %", "100 %"]


def test_scores_of_error_bars_have_names_and_stand_beside_the_model(regression, classification):
    for found, key, name in (
        (regression[2], "coverage95", "95 % intervals"),
        (classification[2], "ece", "calibration"),
    ):
        results = copy.deepcopy(found)
        results["performance"]["baselines"] = {"mean": {key: 0.5, "strange": 1.0}}
        table, kept = score_table(results), results["performance"]["scores"]
        assert len(table["columns"]) == len(kept)
        at = list(kept).index(key)
        assert name in table["columns"][at]["name"]
        calibration = results["calibration"]
        own = calibration["inside"][-1] / calibration["rows"] if key == "coverage95" else calibration["error"]
        assert (table["model"]["values"][at], table["baselines"][0]["values"][at]) == (
            pytest.approx(own, rel=1e-12),
            0.5,
        )


@pytest.mark.parametrize("which", ["regression", "classification"])
def test_the_page_is_whole_and_small(which, request, tmp_path):
    page = page_of(request.getfixturevalue(which)[2], tmp_path)
    assert len(page.encode()) < 1_500_000
    found = Reader(page)
    assert not found.open
    assert not found.all("script")
    assert not re.search(r"(src|href)=\"(?!#)", page)
    assert not re.search(r"url\((?!#)|@import", page)
    ids = [attributes["id"] for _, attributes in found.elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    links = [attributes["href"][1:] for attributes in found.all("a")]
    assert set(links) <= set(ids)


@pytest.mark.parametrize("which", ["regression", "classification"])
def test_the_page_can_be_read_by_all(which, request, tmp_path):
    found = Reader(page_of(request.getfixturevalue(which)[2], tmp_path))
    assert found.all("html") == [{"lang": "en-GB"}]
    assert all(len(found.all(landmark)) == 1 for landmark in ("header", "nav", "main", "footer", "h1"))
    heads = [int(tag[1]) for tag, _ in found.elements if re.fullmatch(r"h[1-6]", tag)]
    assert all(after - before <= 1 for before, after in pairwise(heads))
    assert len(found.all("figure")) >= 5
    pictures = found.all("svg")
    assert len(pictures) == len(found.all("figure"))
    assert all(re.search(r"\d", attributes["aria-label"]) and attributes["role"] == "img" for attributes in pictures)
    assert len(found.all("caption")) == len(found.all("table"))
    assert all(attributes["scope"] in ("row", "col") for attributes in found.all("th"))


def test_numbers_on_the_page_are_those_of_the_model(regression, tmp_path):
    model, (X, y), results = regression
    text = " ".join(Reader(page_of(results, tmp_path)).text)
    mean, std = model.predict(X, return_std=True)
    low, high = model.predict_interval(X, 0.8)
    assert number(float(np.sqrt(np.mean((y - mean) ** 2)))) in text
    assert f"{int(((low <= y) & (y <= high)).sum())} of 30" in text
    i = int(np.abs((y - mean) / std).to_numpy().argmax())
    assert number(float(mean[i])) in text
    assert number(model.hyperparameters_["noise"].value) in text
    assert percent(float(model.relevance_.max()), 2) in text


def test_names_are_escaped(regression, classification, tmp_path):
    for _, _, results in (regression, classification):
        page = page_of(results | {"title": "<img src=x onerror=alert(1)>"}, tmp_path)
        assert "<script" not in page
        assert "<b>Oslo" not in page
        assert "<img" not in page
        assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
        assert "$Rome$" in page  # and no formula


def test_settings_and_assumptions_are_escaped(results, tmp_path):
    results["repeat"] |= {"settings": {"call": "f('</code><script>')"}, "assumptions": ["a </li><script>"]}
    results["performance"]["baselines"] = {"<script>": {"rmse": 1.0, "<script>": 2.0}}
    results["target"] = 'y"><script>'
    assert "<script" not in page_of(results, tmp_path)


def test_the_same_results_give_the_same_page(regression, tmp_path):
    results = regression[2]
    again = json.loads(json.dumps(results))
    assert page_of(results, tmp_path) == page_of(again, tmp_path)
    assert results == again  # and are left as they were
    assert results["made"] in page_of(results, tmp_path)


def captions_of(page):
    return re.findall(r"<figcaption>(.*?)</figcaption>", page)


def test_what_is_left_out_is_said(results, classification, tmp_path):
    points = {name: values * 3 for name, values in results["performance"]["points"].items()}
    results["performance"] |= {"rows": 1200, "points": points}
    results["effects"]["more"] = 7
    results["effects"]["curves"][0] |= {"more_values": 3, "more_curves": 1}
    results["history"] = [
        {"number": 1, "epochs": [1], "values": [-3.0], "ending": "finished"},
        {"number": 3, "epochs": [1, 2], "values": [-2.0, -1.0], "ending": "converged"},
    ]
    page = page_of(results, tmp_path)
    said = captions_of(page)
    assert sum("90 of 1,200 rows are shown." in caption for caption in said) == 2
    assert any("as a share of all columns. 7 more are left out." in caption for caption in said)
    assert any(
        "frequent values are shown. 3 more are left out. The classes that change most are shown. 1 more is left out."
        in caption
        for caption in said
    )
    assert "phase 3: converged" in page
    assert "± 1.96 standard deviations" in page
    assert "expected" not in page
    found = copy.deepcopy(classification[2])
    found["data"]["target"] = {"classes": [str(i) for i in range(24)], "counts": [1] * 24}
    assert any("each class has. 4 more are left out." in caption for caption in captions_of(page_of(found, tmp_path)))


def test_the_page_says_which_rows_its_figures_are_about(results):
    for evidence, said in (
        ("held-out", "has not learnt from"),
        ("leave-one-out", "all the others"),
        ("training", "flatter"),
    ):
        results["performance"]["evidence"] = evidence
        assert said in words.evidence(results)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda r: r.pop("format"), "results has no format"),
        (lambda r: r.update(format=7), "format is 7, but must be 1"),
        (lambda r: r.update(task="clustering"), "got 'clustering'"),
        (lambda r: r["calibration"].pop("pit"), "calibration.pit is missing"),
        (lambda r: r["worst"]["rows"][1].update(row=3), r"worst.rows\[1\].row must not be 3"),
        (lambda r: r.update(effects=[]), "effects must be a dict, got list"),
        (lambda r: r["model"].update(values={}), "model.values must be a list, got dict"),
    ],
)
def test_a_dict_of_another_shape_is_refused(results, tmp_path, change, message):
    change(results)
    with pytest.raises(InputError, match=message):
        write_report(results, tmp_path / "page.html")
    assert not (tmp_path / "page.html").exists()


def test_a_folder_that_is_missing_is_named(results, tmp_path):
    with pytest.raises(InputError, match=r"folder .* does not exist"):
        write_report(results, tmp_path / "none" / "page.html")
