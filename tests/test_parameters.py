import copy
import inspect

import numpy as np
import pytest
import scipy.stats
import torch

from stratagp import kernels as k
from stratagp.errors import InputError
from stratagp.parameters import Parameter, bounded, lower_cholesky, positive, real, simplex
from stratagp.priors import Gamma, HalfCauchy, LogNormal, Normal
from stratagp.training.free import log_jacobian_of


@pytest.mark.parametrize(
    ("make", "value"),
    [
        (positive, 0.3),
        (positive, [1e-8, 1.0, 1e8]),
        (real, [-2.0, 5.0]),
        (lambda v: bounded(v, -1, 3), 2.5),
        (simplex, [0.2, 0.5, 0.3]),
        (lower_cholesky, [[2.0, 0.0], [-1.0, 0.5]]),
        (lambda v: positive(v, bounds=(0.1, 10)), 0.2),
    ],
)
def test_value_survives_the_free_coordinate(make, value):
    np.testing.assert_allclose(make(value).value.detach().numpy(), value, rtol=1e-12)


@pytest.mark.parametrize(
    ("make", "value", "message"),
    [
        (positive, 0.0, "positive and finite"),
        (positive, float("inf"), "positive and finite"),
        (positive, [1.0, -1.0], "positive and finite"),
        (real, float("nan"), "finite"),
        (lambda v: bounded(v, 0, 1), 1.5, "strictly between 0 and 1"),
        (simplex, [0.2, 0.2], "sum to one"),
        (positive, "long", "must be a number"),
    ],
)
def test_bad_values_are_named(make, value, message):
    with pytest.raises(InputError, match=message):
        make(value)


@pytest.mark.parametrize(
    ("prior", "truth"),
    [
        (LogNormal(2.0, 0.7), scipy.stats.lognorm(s=0.7, scale=2.0)),
        (Gamma(3.0, 2.0), scipy.stats.gamma(3.0, scale=0.5)),
        (HalfCauchy(1.5), scipy.stats.halfcauchy(scale=1.5)),
        (Normal(0.5, 2.0), scipy.stats.norm(0.5, 2.0)),
    ],
)
def test_priors_agree_with_scipy(prior, truth):
    x = np.array([0.1, 0.7, 1.3, 4.0])
    np.testing.assert_allclose(prior.log_prob(torch.tensor(x)).numpy(), truth.logpdf(x), rtol=1e-12)


def test_log_prior_sums_over_the_kernel():
    kernel = k.RBF(positive([0.5, 2.0], prior=LogNormal(1.0, 1.0)), positive(1.5, prior=Gamma(2.0, 1.0)))
    kernel = kernel + k.Constant()
    expected = scipy.stats.lognorm(1.0).logpdf([0.5, 2.0]).sum() + scipy.stats.gamma(2.0).logpdf(1.5)
    assert kernel.log_prior().item() == pytest.approx(expected, rel=1e-12)
    assert k.White().log_prior().item() == 0


def test_set_by_name_and_by_address():
    kernel = k.RBF() + k.RationalQuadratic()
    kernel.set(alpha=0.25, **{"0.lengthscale": 3.0})
    assert kernel.parts[1].alpha.item() == pytest.approx(0.25)
    assert kernel.parts[0].lengthscale.item() == pytest.approx(3.0)
    assert kernel.parts[1].lengthscale.item() == pytest.approx(1.0)
    kernel.parts[0].lengthscale = 4.0
    assert kernel.parts[0].lengthscale.item() == pytest.approx(4.0)
    with pytest.raises(InputError, match=r"names 2 parameters.*0\.lengthscale, 1\.lengthscale"):
        kernel.set(lengthscale=1.0)
    with pytest.raises(InputError, match=r"no parameter 'period'.*choose from: 0\.lengthscale"):
        kernel.set(period=1.0)
    with pytest.raises(InputError, match=r"alpha has shape \(\), got a value of shape \(2,\)"):
        kernel.set(alpha=[1.0, 2.0])


def test_fixed_parameters_get_no_gradient():
    kernel = k.RBF() * k.RationalQuadratic()
    kernel.fix("alpha", "0.variance")
    kernel(torch.randn(3, 1)).sum().backward()
    got = {item.name for item in kernel.named_values() if item.parameter.raw.grad is not None}
    assert got == {"0.lengthscale", "1.lengthscale", "1.variance"}
    assert "alpha=1 (fixed)" in repr(kernel)
    kernel.free()
    assert all(p.requires_grad for p in kernel.parameters())


def test_tied_parameters_are_one():
    kernel = k.RBF(0.5) + k.RationalQuadratic(2.0)
    kernel.tie("0.lengthscale", "1.lengthscale")
    assert len(list(kernel.parameters())) == 4
    kernel.set(**{"0.lengthscale": 0.7})
    twin = copy.deepcopy(kernel)
    twin.parts[0].lengthscale = 0.9
    assert kernel.parts[1].lengthscale.item() == pytest.approx(0.7)
    assert twin.parts[1].lengthscale.item() == pytest.approx(0.9)
    shared = k.RBF(kernel.parts[0].parameter("lengthscale"))
    kernel.parts[0].lengthscale = 1.1
    assert shared.lengthscale.item() == pytest.approx(1.1)


def test_function_axis_reads_ready_to_broadcast():
    number, vector, matrix = positive(2.0), positive([1.0, 2.0]), real(torch.ones(2, 3))
    for parameter, shape in [(number, (4, 1, 1)), (vector, (4, 1, 2)), (matrix, (4, 2, 3))]:
        parameter.replicate(4)
        assert parameter.value.shape == shape
    with pytest.raises(InputError, match="already belongs to 4 functions"):
        number.replicate(2)


def test_ard_waits_for_the_columns():
    kernel = k.RBF(0.5, ard=True).on(["b", "c"]) + k.RBF(ard=True)
    with pytest.raises(InputError, match=r"does not know their order"):
        kernel(torch.zeros(2, 3))
    kernel.bind(["a", "b", "c"])
    assert kernel.parts[0].base.lengthscale.tolist() == pytest.approx([0.5, 0.5])
    assert kernel.parts[1].lengthscale.shape == (3,)
    with pytest.raises(InputError, match=r"kernel\.bind\(3\)"):
        k.RBF(ard=True)(torch.zeros(2, 3))
    with pytest.raises(InputError, match="for each of 2 columns, but the points have 3"):
        k.RBF([1.0, 2.0])(torch.zeros(2, 3))
    with pytest.raises(InputError, match="no column 'd'; the columns are a, b, c"):
        k.RBF().on("d").bind(["a", "b", "c"])


def test_state_dict_holds_the_free_values():
    parameter = Parameter([1.0, 2.0])
    assert parameter.state_dict()["raw"].tolist() == [1.0, 2.0]


def test_a_unit_scales_steps_not_values():
    place = real([[1000.0, 0.002]], unit=[500.0, 0.001])
    torch.testing.assert_close(place.natural, torch.tensor([[1000.0, 0.002]], dtype=torch.float64), rtol=1e-15, atol=0)
    place.natural.sum().backward()
    assert place.raw.grad.tolist() == [[500.0, 0.001]]
    place.assign([[500.0, 0.003]])
    assert place.raw[0].tolist() == pytest.approx([1.0, 3.0])
    other = real([[0.0, 0.0]], unit=[1.0, 1.0])
    other.load_state_dict(place.state_dict())
    assert other.natural[0].tolist() == pytest.approx([500.0, 0.003])
    assert log_jacobian_of(place).item() == pytest.approx(np.log(500.0) + np.log(0.001))


def test_a_tied_parameter_answers_to_all_its_addresses():
    kernel = (k.RBF(0.5) + k.RationalQuadratic(2.0)).tie("0.lengthscale", "1.lengthscale")
    kernel.set(**{"1.lengthscale": 3.0})
    assert kernel.parts[0].lengthscale.item() == pytest.approx(3.0)
    with pytest.raises(InputError, match="same shape and kind"):
        (k.RBF(ard=3) + k.RBF()).tie("1.lengthscale", "0.lengthscale")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: k.RBF(lengthscale=-1.0), "lengthscale must be positive and finite, got -1"),
        (lambda: positive(None, name="variance"), "variance must be a number"),
        (lambda: k.RBF([1.0, 2.0], ard=3), "lengthscale has 2 values, but ard=3"),
        (lambda: k.RBF(ard=3).set(lengthscale=[1.0, 2.0]), r"got a value of shape"),
        (lambda: k.RBF().bind(["a", "a"]), "column names must differ"),
        (lambda: positive(1.0, prior=lambda v: 0), r"one from stratagp\.priors"),
        (lambda: positive(0.5, bounds=(-1.0, 1.0)), "bounds of a positive parameter"),
        (lambda: positive(1.0, bounds=(0.5, 1.0)), "strictly between"),
    ],
)
def test_errors_name_the_parameter(make, message):
    with pytest.raises(InputError, match=message):
        make()


def test_a_vector_tells_an_open_parameter_its_columns():
    kernel = k.RBF(ard=True).set(lengthscale=[1.0, 2.0])
    assert kernel(torch.zeros(1, 2)).item() == pytest.approx(1.0)


def test_arguments_are_kept_unless_an_attribute_holds_them():
    kernel = k.Matern(nu=1, lengthscale=0.5, ard=True) + 2 * k.Linear()
    first, second = kernel._arguments["parts"]
    assert (first, second) == tuple(kernel.parts)
    assert first._arguments == {"nu": 1, "ard": True}  # the attribute is a float
    again = copy.deepcopy(kernel)
    assert again._arguments["parts"][0] is again.parts[0]


def test_constructors_show_their_arguments():
    assert list(inspect.signature(k.RBF).parameters) == ["lengthscale", "variance", "ard"]
