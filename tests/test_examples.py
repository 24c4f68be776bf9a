"""The examples with real data run, draw, and print the numbers that the page about them tells."""

import importlib.util
import re
import runpy
import sys
from collections.abc import Callable
from pathlib import Path

import matplotlib.image
import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"
NAMES = ["mauna_loa", "motorcycle", "jura", "meuse"]
BOOK_EVIDENCE = -108.5  # Rasmussen and Williams (2006), page 121; their record has 545 months, ours 528


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., dict[str, float]]:
    """``run("meuse", folds=3)``: the numbers an example returns, once its picture is there."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", sys.path.copy())

    def numbers(name: str, **options: object) -> dict[str, float]:
        spec = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLES / f"{name}.py")
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        found = module.main(**options)
        assert matplotlib.image.imread(tmp_path / "out" / f"{name}.png").shape[1] <= 1200
        return found

    return numbers


def test_mauna_loa_finds_the_values_of_the_book(run: Callable[..., dict[str, float]]) -> None:
    found = run("mauna_loa", ends=(2004,))
    assert found["evidence"] == pytest.approx(BOOK_EVIDENCE, abs=3)
    assert found["kernel.0.lengthscale"] == pytest.approx(67, rel=0.15)
    assert found["kernel.0.variance"] == pytest.approx(66, rel=0.25)
    assert found["kernel.1.1.variance"] == pytest.approx(2.4, rel=0.25)
    assert found["kernel.3.variance"] == pytest.approx(0.18, rel=0.1)
    assert found["noise"] == pytest.approx(0.19, abs=0.01)
    assert found["rmse"] < 2.2
    assert found["coverage"] > 0.9


def test_motorcycle_gains_by_noise_that_varies(run: Callable[..., dict[str, float]]) -> None:
    found = run("motorcycle", folds=3)
    assert found["gain"] > 0.2
    assert found["gain"] > 2 * found["error"]
    assert found["quiet"] > 0.85


@pytest.mark.filterwarnings("ignore:L-BFGS stopped before it converged")  # which is what makes it fast
def test_jura_co_kriging_beats_kriging(run: Callable[..., dict[str, float]]) -> None:
    found = run("jura", scales=["logarithms"], max_iterations=12)
    assert found["kriging, logarithms"] == pytest.approx(0.534, abs=0.02)
    assert found["co_kriging, logarithms"] < found["kriging, logarithms"] - 0.09


def test_meuse_effects_beat_kriging(run: Callable[..., dict[str, float]]) -> None:
    found = run("meuse", folds=3)
    assert found["with effects"] < 0.9 * found["kriging"]
    assert found["and elevation"] < 0.9 * found["kriging"]
    assert found["and elevation"] < found["unmeasured"] < 0.9 * found["kriging"]


def test_files_are_learnt_from_and_predicted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    found = runpy.run_path(str(EXAMPLES / "cluster.py"))["main"](steps=20)
    assert found["rmse"] < 0.2  # the noise alone is 0.1
    assert 0.9 < found["coverage"] <= 1


@pytest.mark.parametrize("name", NAMES)
def test_without_data_an_example_says_so(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("STRATAGP_DATA", raising=False)
    monkeypatch.setattr(sys, "path", sys.path.copy())
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
    assert "STRATAGP_DATA does not name a folder" in capsys.readouterr().out
    assert not list(tmp_path.iterdir())


def test_the_page_shows_the_code_as_it_is() -> None:
    page = (EXAMPLES.parent / "docs" / "examples.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL)
    for name, block in zip(NAMES, blocks, strict=True):
        lines = (EXAMPLES / f"{name}.py").read_text(encoding="utf-8").splitlines()
        assert set(block.splitlines()) <= set(lines), name
