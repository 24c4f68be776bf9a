"""Parts of the user's own are imported by their names, and only where the user says so."""

import sys

import numpy as np
import pytest

import stratagp
from stratagp import kernels as k
from stratagp.errors import InputError, ModelFileError
from stratagp.persistence.registry import Trust
from tests.persistence import mypackage
from tests.persistence.estimators import COUNTS, WORDS, numbers, table

HERE = "tests.persistence.mypackage"
QUICK = {"n_restarts": 0, "max_iterations": 3, "random_state": 0}
pytestmark = pytest.mark.filterwarnings("ignore::stratagp.errors.ConvergenceWarning")


def own_kernel():
    return stratagp.GPRegressor(mypackage.Cauchy() + k.RBF(), mean=mypackage.Slope(), **QUICK)


def own_function():
    return stratagp.GPRegressor(k.RBF().warp(mypackage.stretched), **QUICK)


def own_network():
    return stratagp.DKLRegressor(mypackage.Net(), max_epochs=1, pretrain_epochs=1, last="inducing", n_inducing=5)


MAKERS = {own_kernel: ["Cauchy", "Slope"], own_function: ["stretched"], own_network: ["Net"]}


@pytest.mark.parametrize("make", MAKERS)
def test_own_parts_need_trust(make, tmp_path):
    X = table()
    model = make()
    if make is own_network:
        model.max_epochs = 2
    model.fit(X, numbers(X))
    model.save(tmp_path / "model")
    with pytest.raises(ModelFileError) as error:
        stratagp.load(tmp_path / "model")
    names = [f"{HERE}.{name}" for name in MAKERS[make]]
    assert f"trust={names!r}" in str(error.value)
    for trust in (names, ["tests"], [HERE]):
        loaded = stratagp.load(tmp_path / "model", trust=trust)
        np.testing.assert_array_equal(loaded.predict(X[:5]), model.predict(X[:5]))
    with pytest.raises(ModelFileError, match="trust"):
        stratagp.load(tmp_path / "model", trust=["test", f"{names[0]}s"])


def test_a_function_of_pairs(tmp_path):
    gp = stratagp.GPRegressor(k.PairFunction(mypackage.shared_letters), **QUICK).fit(WORDS, COUNTS)
    gp.save(tmp_path / "model")
    loaded = stratagp.load(tmp_path / "model", trust=[f"{HERE}.shared_letters"])
    np.testing.assert_array_equal(loaded.predict(["abc"]), gp.predict(["abc"]))


def test_nothing_is_found_that_was_not_trusted():
    with pytest.raises(
        ModelFileError, match=r"antigravity\.geohash, which is not part of StrataGP and was not trusted"
    ):
        Trust(["tests"]).find("antigravity.geohash", object)
    assert "antigravity" not in sys.modules


def test_what_has_no_name_cannot_be_saved(tmp_path):
    gp = stratagp.GPRegressor(k.RBF().warp(lambda x: 2 * x), **QUICK).fit(table(), numbers(table()))
    with pytest.raises(InputError, match=r"kernel\.function is a function without a name to import it by"):
        gp.save(tmp_path / "model")

    class Local(mypackage.Slope):
        pass

    gp = stratagp.GPRegressor(mean=Local(), **QUICK).fit(table(), numbers(table()))
    with pytest.raises(InputError, match="mean is a class without a name to import it by"):
        gp.save(tmp_path / "model")
    assert not (tmp_path / "model").exists()


@pytest.mark.parametrize("trust", ["mypackage", [""], ["."]])
def test_trust_must_be_names(trust, tmp_path):
    with pytest.raises(InputError, match="trust must be a list of names"):
        stratagp.load(tmp_path, trust=trust)
