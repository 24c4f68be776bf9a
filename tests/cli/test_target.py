"""What is said about targets: classes that are numbers, dates, constants, skewed numbers and their logarithms."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.stats import lognorm, skew

import stratagp
from stratagp.cli.output import Console
from stratagp.cli.settings import Settings
from stratagp.cli.target import check_target, find_task, is_skewed, warn_of_skew
from tests.cli.conftest import table

QUICK = ("--no-report", "--test", "0", "-o", "model")


def told(values, capsys, task="regression") -> str:
    check_target(pd.Series(values, name="y"), task, Settings("t.csv", "y"), Console())
    return capsys.readouterr().err


def test_classes_of_one_row_each_are_refused(call, here):
    table(30).assign(name=[f"house {i}" for i in range(30)]).to_csv("t.csv", index=False)
    said = call("fit", "t.csv", "-t", "name", code=1).stderr
    assert said.startswith("error: the target 'name' has a different value in each of its 30 rows: classes")
    said = call("fit", "t.csv", "-t", "size", "--task", "classification", code=1).stderr
    assert said.endswith("choose another target, or --task regression\n")


def test_dates_are_no_targets_unless_they_are_said_to_be_classes(call, call_json, here):
    days = pd.date_range("2024-01-01", periods=3).strftime("%Y-%m-%d").tolist() * 10
    frame = table(30).assign(day=days)
    frame.to_csv("t.csv", index=False)
    frame.assign(day=pd.to_datetime(days)).to_parquet("t.parquet")
    for file in ("t.csv", "t.parquet"):
        said = call("fit", file, "-t", "day", code=1).stderr
        assert "the target 'day' holds dates such as '2024-01-01" in said
        assert "--task classification takes them as classes" in said
    assert call_json("fit", "t.csv", "-t", "day", "--task", "classification", *QUICK)["task"] == "classification"


def test_a_constant_target_is_told(call, here):
    table(20).assign(price=1.5).to_csv("t.csv", index=False)
    said = call("fit", "t.csv", "-t", "price", *QUICK).stderr
    assert "warning: the target 'price' is constant: there is nothing to learn\n" in said


def test_numbers_that_are_taken_as_classes_are_told_where_nobody_watches(call, here):
    table(40).assign(count=np.arange(40) % 7).to_csv("t.csv", index=False)
    said = call("fit", "t.csv", "-t", "count", *QUICK)
    assert "warning: the target 'count' has only 7 values, which are taken as classes: --task regression" in said.stderr
    about = json.loads(Path("model/table.json").read_text())["about"]
    assert about["assumptions"] == [
        "id: left out (an identifier by its name: left out; --as id=number takes it as a number)",
        "size: number",
        "town: category",
        "price: number",
        "count: classification (the target has only 7 values; --task regression takes them as numbers)",
    ]
    asked = call("fit", "t.csv", "-t", "count", "--task", "regression", *QUICK, "--overwrite").stderr
    assert "classes" not in asked


def test_zeros_and_ones_need_no_word(capsys):
    assert told([0, 1, 1, 0], capsys, "classification") == ""
    assert "only 2 values" in told([1, 2, 2, 1], capsys, "classification")


@pytest.mark.parametrize(("kind", "task"), [("category", "classification"), ("number", "regression")])
def test_what_the_target_is_said_to_hold_is_the_task(call_json, here, kind, task):
    table(30).assign(code=[1, 2, 3] * 10).to_csv("t.csv", index=False)
    assert call_json("fit", "t.csv", "-t", "code", "--as", f"code={kind}", *QUICK)["task"] == task
    again = call_json("fit", "--config", "model/settings.toml", "--no-report", "-o", "again")
    assert again["task"] == task


def test_classes_that_are_said_to_be_categories_keep_their_letters(call, call_json, here):
    frame = table(30).assign(code=["007", "012"] * 15)
    frame.to_csv("t.csv", index=False)
    call("fit", "t.csv", "-t", "code", "--as", "code=category", *QUICK)
    assert stratagp.load("model").classes_.tolist() == ["007", "012"]
    assert call_json("evaluate", "model", "t.csv")["rows"] == 30


def test_other_kinds_of_a_target_are_refused(call, here):
    table(20).to_csv("t.csv", index=False)
    for kind in ("date", "text", "ignore"):
        said = call("fit", "t.csv", "-t", "price", "--as", f"price={kind}", code=1).stderr
        assert said.startswith(f"error: --as price={kind}: the target must be a number or a category, as --task")
    said = call("fit", "t.csv", "-t", "price", "--as", "price=category", "--task", "regression", code=1).stderr
    assert "and regression was asked for" in said


@pytest.mark.parametrize("spread", [0.2, 0.35, 1.0])
def test_skewed_numbers_are_those_of_scipy(spread, capsys):
    y = lognorm(spread).rvs(400, random_state=0)
    assert is_skewed(y) == (skew(y) > 1)
    warn_of_skew(pd.Series(y, name="y"), Settings("t.csv", "y"), Console())
    assert ("--log learns its logarithm" in capsys.readouterr().err) == (skew(y) > 1)
    assert not is_skewed(y - 5)


def test_a_model_of_logarithms_answers_by_the_log_normal_distribution(call, call_json, here):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": rng.uniform(0, 3, 120)})
    frame["y"] = np.exp(6 + np.sin(2 * frame["x"]) + 0.5 * rng.standard_normal(120))
    frame.to_csv("t.csv", index=False)
    assert "positive and skewed" in call("fit", "t.csv", "-t", "y", "--no-report", "-o", "plain").stderr
    said = call("fit", "t.csv", "-t", "y", "--log", "--epochs", "150", "-o", "model")
    assert said.stderr == ""
    found = {name: np.array(values) for name, values in call_json("predict", "model", "t.csv")["predictions"].items()}
    low, high = np.log(found["lower"]), np.log(found["upper"])
    truth = lognorm((high - low) / (2 * 1.959963984540054), scale=np.exp((low + high) / 2))
    np.testing.assert_allclose(found["mean"], truth.mean(), rtol=1e-9)
    np.testing.assert_allclose(found["std"], truth.std(), rtol=1e-9)
    scores = call_json("evaluate", "model", "t.csv")["metrics"]
    assert scores["nlpd"] == pytest.approx(-truth.logpdf(frame["y"]).mean(), rel=1e-9)
    assert scores["nlpd"] < call_json("evaluate", "plain", "t.csv")["metrics"]["nlpd"] - 0.1
    assumed = json.loads(Path("model/table.json").read_text())["about"]["assumptions"]
    assert any("the model learns its logarithm" in each for each in assumed)
    again = call_json("fit", "--config", "model/settings.toml", "-o", "again", "--no-report")
    assert again["metrics"] == call_json("info", "model")["metrics"]


def test_logarithms_that_cannot_be_learnt(call, here):
    table(20).to_csv("t.csv", index=False)
    table(20).assign(price=lambda t: t["price"] - t["price"][3]).to_csv("zero.csv", index=False)
    assert "use --model autogp" in call("fit", "t.csv", "-t", "price", "--log", "--model", "exact", code=1).stderr
    assert "--task regression" in call("fit", "t.csv", "-t", "town", "--log", code=1).stderr
    frame = pd.read_csv("zero.csv")
    first = int((frame["price"] <= 0).to_numpy().argmax())
    said = call("fit", "zero.csv", "-t", "price", "--log", code=1).stderr
    assert f"the target 'price' is {frame['price'][first]:g} in row {first + 1}: only positive numbers have a" in said
    Path("many").mkdir()
    table(20).to_csv("many/a.csv", index=False)
    assert "--log needs a file that fits in memory" in call("fit", "many", "-t", "price", "--log", code=1).stderr


def test_a_likelihood_takes_the_model_that_learns_it(call, call_json, here):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": rng.uniform(0, 3, 80)})
    frame["y"] = rng.poisson(np.exp(np.sin(2 * frame["x"]))) * (rng.uniform(size=80) < 0.8)
    frame.to_csv("t.csv", index=False)
    asked = ("--likelihood", "zero-inflated-poisson", "--epochs", "3")
    said = call_json("fit", "t.csv", "-t", "y", *asked, *QUICK)
    assert (said["task"], said["model"]) == ("regression", "autogp")
    assert isinstance(stratagp.load("model").fitted_.observed, stratagp.likelihoods.ZeroInflated)
    assert 'likelihood = "zero-inflated-poisson"' in Path("model/settings.toml").read_text()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            ("poisson",),
            "--likelihood poisson does not suit the target 'y': y must be counts 0, 1, 2, …, got 0.5 in row 0",
        ),
        (("poison",), "likelihood must be one of gaussian, "),
        (("gamma", "--model", "best"), "--likelihood needs a model that learns by mini-batches, and best does not"),
        (("gamma", "--log"), "--log is --likelihood log-normal: give one of the two"),
        (("gamma", "--task", "classification"), "--likelihood gamma is for numbers"),
        (("gamma", "--as", "y=category"), "--likelihood gamma is for numbers"),
    ],
)
def test_likelihoods_that_cannot_be_learnt(call, here, options, message):
    pd.DataFrame({"x": np.arange(20.0) ** 2, "y": np.arange(20) + 0.5}).to_csv("t.csv", index=False)
    assert message in call("fit", "t.csv", "-t", "y", "--likelihood", *options, code=1).stderr


def test_counts_are_numbers_and_codes_are_classes():
    """Rarer and rarer from 0 up: counts; equally many of each, or few of them: codes."""
    rng = np.random.default_rng(0)
    counts = pd.Series(np.minimum(rng.poisson(0.8, 600), 9), name="visits")
    task, why = find_task(counts, "auto")
    assert task == "regression"
    assert "counts" in why
    for codes in (rng.integers(0, 10, 600), rng.binomial(1, 0.2, 600), rng.choice(3, 600, p=[0.7, 0.2, 0.1])):
        assert find_task(pd.Series(codes), "auto")[0] == "classification"


FREQUENCIES = {  # of real targets: the first value, how often each occurs, and what they are
    "iris": (0, [50, 50, 50], "classification"),
    "digits": (0, [178, 182, 177, 183, 181, 182, 181, 179, 174, 180], "classification"),  # of scikit-learn
    "cover": (1, [2118, 2835, 357, 27, 95, 174, 211], "classification"),  # of forests, a hundredth of all
    "occupation": (1, [113, 13, 47, 68, 204, 143, 13], "classification"),  # of AER's Affairs
    "birth_month": (1, [266, 249, 271, 258, 269, 268, 287, 290, 281, 273, 255, 260], "classification"),
    "vowel": (1, [90] * 11, "classification"),
    "race": (1, [96, 26, 67], "classification"),  # of MASS's birthwt
    "age": (1, [10, 16, 27, 14, 13, 12, 7, 1, 2], "regression"),  # of DAAG's possum
    "quality": (3, [10, 53, 681, 638, 199, 18], "regression"),  # of red wine
    "rating": (1, [16, 66, 93, 194, 232], "regression"),  # of AER's Affairs
    "religiousness": (1, [48, 164, 129, 190, 70], "regression"),
    "education": (1, [224, 292, 1249, 394, 418], "regression"),  # of psych's bfi
    "anger": (1, [922, 818, 402, 337, 223, 82], "regression"),
}


@pytest.mark.parametrize("name", FREQUENCIES)
def test_whole_numbers_with_one_peak_are_numbers_and_others_codes(name, capsys):
    first, counts, task = FREQUENCIES[name]
    y = pd.Series(np.repeat(first + np.arange(len(counts)), counts), name=name)
    assert find_task(y, "auto")[0] == task
    other = "regression" if task == "classification" else "classification"
    check_target(y, task, Settings("t.csv", name), Console())
    assert f"--task {other} takes them as" in capsys.readouterr().err


def test_gaps_tell_numbers_from_codes_unless_the_name_does():
    cylinders = pd.Series(np.repeat([3, 4, 5, 6, 8], [4, 199, 3, 83, 103]), name="cylinders")
    glass = np.repeat([1, 2, 3, 5, 6, 7], [70, 76, 17, 13, 9, 29])
    assert find_task(cylinders, "auto")[0] == "regression"
    assert find_task(pd.Series(glass, name="Type"), "auto")[0] == "classification"
    assert find_task(pd.Series(glass, name="glasses"), "auto")[0] == "regression"
    assert find_task(pd.Series(np.repeat([1, 2, 3, 4, 5], [2, 9, 20, 12, 3]), name="class"), "auto")[0] != "regression"
