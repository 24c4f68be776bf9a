"""What every test session shares: shapes checked at run time, few threads, data sets that may be absent."""

import gc
import os
from collections.abc import Callable, Generator
from pathlib import Path

import pytest
import torch

import datasets
import tests.typecheck

# From here on an import of the package brings checks of the types and shapes in its annotations, in doctests too.
# Estimators are left out: they tell users in words what is wrong with an option.
_HOME = Path(__file__).parents[1] / "src" / "stratagp"
_CHECKED = [f"stratagp.{path.stem}" for path in _HOME.iterdir() if path.stem not in ("estimators", "__init__")]
tests.typecheck.install(_CHECKED)

SLOW_FILES = frozenset((Path(__file__).parent / "slow.txt").read_text("utf-8").split())  # five seconds and more

torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "2")))


def pytest_collectstart(collector: pytest.Collector) -> None:
    """Cases that a module makes at import draw the same numbers whatever was imported before."""
    torch.default_generator.manual_seed(4)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests of the files in ``slow.txt``, which `make test-fast` leaves out."""
    for item in items:
        if item.nodeid.partition("::")[0] in SLOW_FILES:
            item.add_marker(pytest.mark.slow)


def pytest_collection_finish() -> None:
    """What was imported stays: the collector of garbage need not look at it again and again."""
    gc.freeze()


@pytest.fixture(autouse=True)
def _same_draws() -> None:
    """A test draws the same numbers whichever worker runs it, and after whichever tests."""
    torch.default_generator.manual_seed(0)  # that of the processor alone: torch.manual_seed writes a stack trace


@pytest.fixture
def data_path() -> Callable[[str], Path]:
    """``data_path("mnist/mnist.npz")``, under ``STRATAGP_DATA``; the test is skipped where it is absent."""
    return datasets.locate


def _skip_without_data(item: pytest.Item) -> Generator[None, None, None]:
    try:
        return (yield)
    except datasets.DataMissing as missing:
        pytest.skip(str(missing))


pytest_runtest_setup = pytest.hookimpl(wrapper=True)(_skip_without_data)
pytest_runtest_call = pytest.hookimpl(wrapper=True)(_skip_without_data)
