"""Models of molecules, whose functions are the library's own and need no trust."""

import numpy as np
import pytest

import stratagp
from stratagp import kernels as k


@pytest.mark.filterwarnings("ignore::stratagp.errors.ConvergenceWarning")
def test_a_model_of_molecules_gives_the_same_bits(tmp_path):
    pytest.importorskip("rdkit")
    texts = ["CCO", "CCN", "CCC", "c1ccccc1", "CC(=O)O", "CCCC"]
    gp = stratagp.GPRegressor(k.Tanimoto(parse=k.fingerprint), n_restarts=0, max_iterations=5, random_state=0)
    gp.fit(texts, np.arange(6.0)).save(tmp_path / "model")
    loaded = stratagp.load(tmp_path / "model")
    for one, other in zip(
        gp.predict(["CCCO"], return_std=True), loaded.predict(["CCCO"], return_std=True), strict=True
    ):
        np.testing.assert_array_equal(one, other)
