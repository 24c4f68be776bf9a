"""Kernels, likelihoods, means and priors come back as they were."""

import inspect
import json
import math
from datetime import date, datetime, timedelta
from decimal import Decimal
from functools import partial

import numpy as np
import pytest
import torch

from stratagp import kernels, likelihoods, means, priors
from stratagp.errors import InputError
from stratagp.kernels import Kernel
from stratagp.persistence.decoding import Decoder
from stratagp.persistence.encoding import Encoder
from stratagp.persistence.registry import Trust, classes
from tests.kernels.cases import CASES


def back(value):
    """The value after a way through JSON."""
    encoder = Encoder(value, None)
    nodes = json.loads(json.dumps(encoder.objects, allow_nan=False))
    return Decoder(nodes, encoder.tensors.named, Trust(["tests"])).read()[0]


WITH_LOCAL_FUNCTIONS = ("Gibbs",)


@pytest.mark.parametrize("name", CASES)
def test_a_kernel_gives_the_same_bits(name):
    kernel, (x, z) = CASES[name].make(), CASES[name].inputs()
    if name in WITH_LOCAL_FUNCTIONS:
        with pytest.raises(InputError, match="without a name to import it by"):
            back(kernel)
        return
    again = back(kernel)
    assert repr(again) == repr(kernel)
    for both in ((x, z), (x, None)):
        np.testing.assert_array_equal(again(*both).detach().numpy(), kernel(*both).detach().numpy())
    np.testing.assert_array_equal(again.diag(x).detach().numpy(), kernel.diag(x).detach().numpy())


LIKELIHOODS = [
    likelihoods.Bernoulli("probit"),
    likelihoods.Beta(),
    likelihoods.Binomial(),
    likelihoods.Exponential(),
    likelihoods.Gamma(),
    likelihoods.GaussianNoise(0.3),
    likelihoods.GPRN(noise=[0.1, 0.2]),
    likelihoods.Heteroscedastic(),
    likelihoods.Hurdle(likelihoods.NegativeBinomial(), 0.4),
    likelihoods.LaplaceNoise(0.2),
    likelihoods.LogNormalTimes() if hasattr(likelihoods, "LogNormalTimes") else likelihoods.Gamma(),
    likelihoods.NegativeBinomial(),
    likelihoods.Ordinal(4),
    likelihoods.Poisson(),
    likelihoods.RobustMax(),
    likelihoods.Sampled(likelihoods.Softmax(), 5, torch.Generator().manual_seed(3)),
    likelihoods.Softmax(),
    likelihoods.StudentT(),
    likelihoods.ZeroInflated(likelihoods.Poisson(2.0)),
]


@pytest.mark.parametrize("likelihood", LIKELIHOODS, ids=lambda one: type(one).__name__)
def test_a_likelihood_comes_back(likelihood):
    again = back(likelihood)
    assert repr(again) == repr(likelihood)
    for one, other in zip(likelihood.state_dict().values(), again.state_dict().values(), strict=True):
        assert torch.equal(one, other)


def test_means_and_priors_come_back():
    given = [priors.LogNormal(2.0, 0.3), priors.Gamma(2, 3), priors.HalfCauchy(0.1), priors.Normal(-1, 2)]
    assert back(given) == given
    x = torch.rand(4, 2, dtype=torch.float64)
    for mean in (means.Zero(), means.Constant(0.1), means.Polynomial([[0.1, 0.7], [0.3, 0.2]], 0.3)):
        assert torch.equal(back(mean)(x), mean(x))


def test_layouts_and_shared_memory_come_back():
    base = torch.arange(12.0).reshape(3, 4)
    whole, turned, row = back([base, base.mT, base[1]])
    assert (whole.stride(), turned.stride()) == ((4, 1), (1, 4))
    whole[1, 2] = 99
    assert turned[2, 1] == row[2] == 99
    fortran = back(np.asfortranarray(np.arange(6.0).reshape(2, 3)))
    assert fortran.flags.f_contiguous
    np.testing.assert_array_equal(fortran, np.arange(6.0).reshape(2, 3))


@pytest.mark.parametrize(
    "texts",
    [
        np.array(["a" * 2000] + ["b"] * 300).reshape(7, 43),
        np.array([b"a" * 2000] + [b""] * 300),
        np.array("a", dtype="<U100"),
        np.array(["a", "bc"], dtype="<U10"),
        np.array([], dtype="<U5"),
    ],
    ids=["long", "bytes", "single", "wide", "none"],
)
def test_arrays_of_texts_come_back(texts):
    again = back(texts)
    assert again.dtype == texts.dtype
    np.testing.assert_array_equal(again, texts)


VALUES = [
    None,
    True,
    "é",
    -1,
    10**30,
    -(2**63),
    1e-320,
    math.inf,
    -math.inf,
    b"\x00a",
    torch.float32,
    torch.device("cpu"),
]
VALUES += [np.float32(0.1), np.float64("nan"), np.int8(-3), np.bool_(True), np.str_(""), np.str_("aé"), np.bytes_(b"b")]
VALUES += [np.datetime64("2020-01-02"), np.timedelta64(3, "h"), np.longdouble(0.1), Decimal("-1.50"), Decimal("1E+3")]
VALUES += [date(2020, 1, 2), datetime(2020, 1, 2, 3, 4, 5, 6), timedelta(-1, 2, 3), slice(1, None), range(3, 9, 2)]
VALUES += [
    [],
    (1, (2,)),
    {"a": 1, 2: None},
    {1, "b"},
    frozenset({(1, 2)}),
    torch.Size([2, 3]),
    partial(torch.sin, out=None),
]


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_a_value_comes_back(value):
    again = back(value)
    if isinstance(value, (set, frozenset)):  # whose order is no promise
        assert (type(again), again) == (type(value), value)
        return
    assert repr(again) == repr(tuple(value) if isinstance(value, torch.Size) else value)


def test_arrays_of_objects_come_back():
    given = np.array([[1, "a", None], [2.5, date(2020, 1, 2), ()]], dtype=object)
    again = back(given)
    assert again.dtype == object
    assert again.tolist() == given.tolist()


def test_columns_of_a_frame_come_back_as_plain_arrays():
    pandas = pytest.importorskip("pandas")
    days = pandas.date_range("2020-01-01", periods=3, tz="Europe/Berlin")
    given = pandas.DataFrame({"day": days, "town": pandas.Categorical(["a", "b", "a"]), 3: [1.5, 2.5, np.nan]})
    again = back(given)
    assert list(again.columns) == ["day", "town", 3]
    assert again["day"].tolist() == days.tz_convert("UTC").tz_localize(None).tolist()
    assert again["town"].tolist() == ["a", "b", "a"]
    np.testing.assert_array_equal(again[3], given[3])


def test_long_texts_and_names_come_back():
    long = np.str_("A" * 1200)
    assert back([long, np.bytes_(b"b" * 1200)]) == [long, b"b" * 1200]
    columns = {"c" * 1200 + end: np.arange(3.0) + i for i, end in enumerate("xyz")}
    again = back(columns)
    assert [again[name].tolist() for name in columns] == [[0.0, 1.0, 2.0], [1.0, 2.0, 3.0], [2.0, 3.0, 4.0]]


def test_every_kernel_of_the_library_is_in_the_registry():
    own = {cls for _, cls in inspect.getmembers(kernels, inspect.isclass) if issubclass(cls, Kernel)}
    assert own <= set(classes().values())
