"""``stratagp serve``: its answers are those of ``stratagp predict``; its page works in a browser."""

import json
import shutil
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from contextlib import contextmanager

import numpy as np
import pandas as pd
import pytest

from stratagp.cli.commands.serve import Answers, about
from stratagp.cli.model_folder import open_model
from stratagp.errors import InputError
from stratagp.serving import Server, Wanted
from tests.cli.conftest import table

CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync"
)


def wanted(rows, level=0.95, quantiles=()):
    return Wanted(level, quantiles, frozenset(name for row in rows for name in row))


def asked(url, body=None, method=None):
    """The JSON that a URL answers with."""
    content = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, content, {"Content-Type": "application/json"}, method=method)
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.loads(answer.read())


@contextmanager
def serving(model):
    """The address of a server of a model."""
    learnt = open_model(str(model))
    server = Server(Answers(learnt), about(learnt), port=0)
    threading.Thread(target=server.serve_forever, args=(0.02,)).start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    assert server.finish(5)


def test_answers_are_those_of_predict(call_json, houses, here):
    new = table(9, seed=1).drop(columns="price")
    new.to_csv("new.csv", index=False)
    expected = call_json("predict", houses["model"], "new.csv", "--level", 0.8)["predictions"]
    rows = new.to_dict("records")
    with serving(houses["model"]) as url:
        found = asked(f"{url}/predict", {"rows": rows, "level": 0.8, "quantiles": [0.1, 0.9]})["predictions"]
        alone = [asked(f"{url}/predict", {"rows": [row], "level": 0.8})["predictions"][0] for row in rows[:3]]
        assert asked(f"{url}/health")["rows"] == 12
        said = asked(f"{url}/model")
        new, seen = asked(f"{url}/predict", {"rows": [{"size": 2, "town": name} for name in ("Rome", "Oslo")]})[
            "predictions"
        ]
    assert new["warning"] == "the category 'Rome' in column 'town' was not in the training data"
    assert new["std"] > 2 * seen["std"]
    assert "warning" not in seen
    assert list(found[0]) == ["mean", "std", "lower", "upper", "q(0.1)", "q(0.9)"]
    for name, values in expected.items():
        assert [each[name] for each in found] == pytest.approx(values, rel=1e-12, abs=1e-12)
        assert [each[name] for each in alone] == pytest.approx(values[:3], rel=1e-12, abs=1e-12)
    assert found[0]["q(0.1)"] == pytest.approx(found[0]["lower"], rel=1e-12)
    assert said["columns"] == [
        {"name": "size", "kind": "number"},
        {"name": "town", "kind": "category", "known": ["Bonn", "Oslo"]},
    ]
    assert (said["target"], said["task"], said["limits"]["max_rows"]) == ("price", "regression", 10_000)


def test_classes_truths_whole_numbers_dates_and_gaps(call, call_json, here):
    frame = table(40).assign(
        zip=lambda t: np.where(t.town == "Oslo", "10", "20"), new=lambda t: t.price > 5, kind=lambda t: t["size"] > 3
    )
    frame["day"] = pd.date_range("2024-01-01", periods=40).strftime("%Y-%m-%d")
    frame.loc[3, "size"] = np.nan
    frame.drop(columns=["price", "id"]).to_csv("t.csv", index=False)
    call("fit", "t.csv", "-t", "kind", "--as", "zip=category", "--no-report", "--test", 0, "-o", "m")
    expected = call_json("predict", "m", "t.csv")["predictions"]
    rows = pd.read_csv("t.csv").drop(columns="kind").astype(object)
    rows = rows.where(rows.notna(), None).to_dict("records")
    assert isinstance(rows[0]["new"], bool)
    assert isinstance(rows[0]["zip"], int)
    rows[1]["zip"], rows[2]["zip"] = float(rows[1]["zip"]), str(rows[2]["zip"])
    learnt = open_model("m")
    answers = Answers(learnt)
    found = answers(rows, wanted(rows))
    assert [each["class"] for each in found] == expected["class"]
    for name in ("p(False)", "p(True)"):
        assert [each[name] for each in found] == pytest.approx(expected[name], rel=1e-12)
        assert answers(rows[3:4], wanted(rows[3:4]))[0][name] == pytest.approx(expected[name][3], rel=1e-9)
    assert about(learnt)["classes"] == ["False", "True"]
    assert about(learnt)["gaps"] is True
    with pytest.raises(InputError, match="quantiles are those of numbers"):
        answers(rows, wanted(rows, quantiles=(0.5,)))


@pytest.mark.parametrize(
    ("row", "says"),
    [
        ({"size": 1}, "the request has no column 'town', which the model was fitted with"),
        ({"sise": 1, "town": "Oslo"}, "did you mean 'sise' for 'size'"),
        ({"size": None, "town": "Oslo"}, "no value in column 'size', row 1"),
        ({"size": "big", "town": "Oslo"}, "'big' in column 'size', row 1: expected a number"),
        ({"size": 10**400, "town": "Oslo"}, "has inf in column 'size', row 1: expected a number"),
        ({"size": [1], "town": "Oslo"}, "a list in column 'size', row 1: give one value"),
        ({"size": 1, "town": {}}, "an object in column 'town', row 1: give one value"),
        ({}, "the request has no column 'size', 'town'"),
    ],
)
def test_rows_that_cannot_be_predicted(houses, row, says):
    with pytest.raises(InputError, match=says):
        Answers(open_model(str(houses["model"])))([row], wanted([row]))


def test_the_command_ends_well_when_asked_to(houses, call, here):
    command = [sys.executable, "-m", "stratagp", "serve", str(houses["model"]), "--port", "0", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as server:
        url = json.loads(server.stdout.readline())["url"]
        assert len(asked(f"{url}predict", {"rows": [{"size": 2, "town": "Oslo"}]})["predictions"]) == 1
        said = call("serve", houses["model"], "--port", url.rsplit(":", 1)[1].strip("/"), code=1).stderr
        assert "--port 0 takes a free port" in said
        server.send_signal(signal.SIGTERM)
        assert server.wait(20) == 0
        assert server.stderr.read() == ""


@pytest.mark.skipif(not (CHROMIUM and DRIVER), reason="there is no chromium with a chromedriver on this machine")
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_the_page_in_a_browser(houses, tmp_path, dark):
    with serving(houses["model"]) as url, browser(tmp_path, dark) as run:
        run("url", {"url": url})
        until(run, "return document.querySelectorAll('label').length == 2")
        assert script(run, "return document.title") == "Predict price"
        assert script(run, "return getComputedStyle(document.body).backgroundColor") == (
            "rgb(20, 24, 29)" if dark else "rgb(255, 255, 255)"
        )
        kinds = "return [...document.forms[0].elements].map((e) => [e.type, e.required, e.labels.length])"
        assert script(run, kinds) == [["number", True, 1], ["select-one", True, 1], ["submit", None, 0]]
        size, town, button = (element(run, each) for each in ("input", "select", "button"))
        run(f"element/{button}/click", {})
        assert script(run, "return document.getElementById('found').hidden") is True  # the browser wants values
        run(f"element/{size}/value", {"text": "3.25"})
        run(f"element/{town}/value", {"text": "Oslo"})
        run(f"element/{button}/click", {})
        until(run, "return document.querySelectorAll('tbody tr').length == 1")
        shown = script(run, "return [...document.querySelectorAll('td')].map((e) => e.textContent)")
        expected = asked(f"{url}/predict", {"rows": [{"size": 3.25, "town": "Oslo"}]})["predictions"][0]
        assert [float(each) for each in shown[:4]] == pytest.approx(list(expected.values()), rel=1e-5)
        assert shown[4:] == ["3.25", "Oslo"]
        assert "price is about 9." in script(run, "return document.getElementById('status').textContent")
        assert script(run, "return document.documentElement.scrollWidth <= innerWidth")
        script(run, "document.querySelector('select').append(new Option('Rome'))")
        run(f"element/{town}/value", {"text": "Rome"})
        run(f"element/{button}/click", {})
        until(run, "return document.getElementById('problem').textContent.includes(\"the category 'Rome'\")")


@contextmanager
def browser(folder, dark):
    """``run(command, body)`` of a new browser, by the protocol of chromedriver."""
    with subprocess.Popen([DRIVER, "--port=0"], stdout=subprocess.PIPE, text=True) as driver:
        try:
            line = next(each for each in driver.stdout if "successfully on port" in each)
            base = f"http://127.0.0.1:{line.rsplit(' ', 1)[1].strip().strip('.')}/session"
            theme = f"--blink-settings=preferredColorScheme={0 if dark else 1}"
            flags = [*FLAGS.split(), f"--user-data-dir={folder / 'profile'}", "--window-size=500,900", theme]
            always = {"goog:chromeOptions": {"binary": CHROMIUM, "args": flags}}
            session = f"{base}/{asked(base, {'capabilities': {'alwaysMatch': always}})['value']['sessionId']}"
            yield lambda command, body: asked(f"{session}/{command}", body)["value"]
            asked(session, method="DELETE")
        finally:
            driver.terminate()


def script(run, text):
    return run("execute/sync", {"script": text, "args": []})


def element(run, selector):
    return next(iter(run("element", {"using": "css selector", "value": selector}).values()))


def until(run, text):
    end = time.monotonic() + 10
    while not script(run, text):
        assert time.monotonic() < end, f"the page does not do: {text}"
        time.sleep(0.05)
