"""The examples of the gallery run, and print what its page says they print."""

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[1]
NUMBER = re.compile(r"-?\d[\d,]*\.?\d*(?:e[-+]?\d+)?")
BY_THE_CLOCK = {"best"}  # has as many candidates as there is time for
TOLERANCE = 0.05  # of each number; those of another machine or version of a library may differ in the last digits


def load_gallery() -> ModuleType:
    spec = importlib.util.spec_from_file_location("make_gallery", ROOT / "docs" / "make_gallery.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


gallery = load_gallery()
NAMES = [name for members in gallery.SECTIONS.values() for name in members]
PAGE = gallery.PAGE.read_text(encoding="utf-8")


def numbers(text: str) -> list[float]:
    return [float(found.replace(",", "")) for found in NUMBER.findall(text)]


@pytest.mark.parametrize("name", NAMES)
def test_an_example_prints_what_the_page_says(name: str) -> None:
    example = gallery.read(name)
    printed, told = example.run(), gallery.shown(PAGE)[name]
    gallery.plt.close("all")
    if name in BY_THE_CLOCK:
        assert numbers(printed)[-1] > 0.7  # R², against 0.8 of a process alone
        return
    assert re.sub(r"\s+", " ", NUMBER.sub("#", printed)) == re.sub(r"\s+", " ", NUMBER.sub("#", told))
    for found, expected in zip(numbers(printed), numbers(told), strict=True):
        last_digit = 2 * 10.0 ** -len(str(expected).partition(".")[2].rstrip("0") or "")
        assert found == pytest.approx(expected, rel=TOLERANCE, abs=last_digit)


@pytest.mark.parametrize("name", NAMES)
def test_the_page_shows_the_example_as_it_is(name: str) -> None:
    example = gallery.read(name)
    assert gallery.entry(example, gallery.shown(PAGE)[name]) in PAGE
    assert 5 <= len(example.code.splitlines()) <= 40


def test_the_page_has_every_example() -> None:
    assert sorted(NAMES) == sorted(path.stem for path in gallery.EXAMPLES.glob("*.py"))


def test_pictures_are_small_and_in_use() -> None:
    pictures = [*(ROOT / "docs" / "images").glob("gallery_*.png")]
    assert sum(path.stat().st_size for path in pictures) < 1_500_000
    assert {path.name for path in pictures} == set(re.findall(r"images/(gallery_\w+\.png)", PAGE))
