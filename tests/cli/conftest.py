"""A small table, a model of it, and a way to call the program."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner, Result

from stratagp.cli import main


def table(n: int = 60, seed: int = 0) -> pd.DataFrame:
    """Prices by size and town, with a name for each row."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {"id": np.arange(n), "size": rng.uniform(1, 5, n).round(3), "town": rng.choice(["Bonn", "Oslo"], n)}
    )
    frame["price"] = (2 * frame["size"] + 3 * (frame["town"] == "Oslo") + 0.1 * rng.standard_normal(n)).round(4)
    return frame


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(scope="session")
def call() -> Callable[..., Result]:
    """``call("fit", "a.csv", …)``, which must end with the exit code ``code``.

    A fit is by a single model unless a test says otherwise: a mixture takes seconds.
    """

    def run(*args: Any, code: int = 0, given: Any = None) -> Result:
        words = [str(each) for each in args]
        if words[:1] == ["fit"] and not {"--model", "--config", "--help"} & set(words):
            words += ["--model", "single"]
        result = CliRunner().invoke(main, words, input=given)
        if code != 3 and result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        assert result.exit_code == code, result.stdout + result.stderr
        return result

    return run


@pytest.fixture(scope="session")
def call_json(call: Callable[..., Result]) -> Callable[..., dict[str, Any]]:
    """The one JSON object that a command prints."""
    return lambda *args, **options: json.loads(call(*args, "--json", **options).stdout)


@pytest.fixture(scope="session")
def houses(tmp_path_factory: pytest.TempPathFactory, call_json: Callable[..., dict[str, Any]]) -> dict[str, Any]:
    """A folder with ``houses.csv`` and a model of it, and what the fit said."""
    folder = tmp_path_factory.mktemp("houses")
    table().to_csv(folder / "houses.csv", index=False)
    said = call_json("fit", folder / "houses.csv", "-t", "price", "-o", folder / "model", "--no-report")
    return {"folder": folder, "file": folder / "houses.csv", "model": folder / "model", "said": said}
