"""Difficult input to every regressor and classifier: the right answer, or a clear error. The cases are a benchmark's.

Bounds are those of ``bad_inputs.verdict``: a relative error of at most 0.4 (the noise alone has 0.15) and
85 % of new targets inside intervals of 95 %, or 15 % wrong classes and a log loss of 0.4.
"""

import pytest

import bad_inputs
from bad_inputs import CLASSIFIERS, REFUSED, REGRESSORS, case, tried, verdict
from stratagp.errors import InputError

SLOW = {
    "DRFRegressor",
    "GPDRFRegressor",
    "DRFClassifier",
    "GPDRFClassifier",
    "DFGPRegressor",
    "WishartProcessRegressor",
}
SLOW |= {"AutoGPRegressor", "DKLRegressor", "GPRegressor heteroscedastic", "StrataRegressor", "AutoGPClassifier"}
SLOW |= {"DKLClassifier", "DFGPClassifier", "StrataClassifier", "GPClassifier ep"}
QUICK = [name for name in {**REGRESSORS, **CLASSIFIERS} if name not in SLOW]
ANSWERED = [name for name in bad_inputs.CASES if name not in (*REFUSED, "one row", "constant y", "clean")]


@pytest.mark.parametrize("model", [*REGRESSORS, *CLASSIFIERS])
@pytest.mark.parametrize("name", [*REFUSED, "one row"])
def test_a_clear_error(model, name):
    """That says where the fault is and what to do; stacks fill what is NaN in X."""
    of_classes = model in CLASSIFIERS
    if model.startswith("Strata") and name == "NaN in X":
        pytest.skip("stacks fill gaps")
    task = case(name, 20, of_classes)
    make = (CLASSIFIERS if of_classes else REGRESSORS)[model]
    with pytest.raises(InputError, match=r"(NaN|infinity|no label).*(drop|correct)|one row|one class|at least"):
        make().fit(task.X, task.y)


@pytest.mark.parametrize("model", QUICK)
@pytest.mark.parametrize("name", ANSWERED)
def test_the_right_answer(model, name):
    of_classes = model in CLASSIFIERS
    found = tried((CLASSIFIERS if of_classes else REGRESSORS)[model](), case(name, 60, of_classes), of_classes)
    assert verdict(found, name, of_classes) in ("right", "refused"), found
