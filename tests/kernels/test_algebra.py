import copy

import pytest
import torch

from stratagp import kernels as k
from stratagp.errors import InputError, UnsupportedError
from stratagp.types import Gaussian
from tests.kernels.case import points


def test_sums_and_products_flatten():
    a, b, c = k.RBF(), k.Linear(), k.Constant()
    assert (a + b + c).parts == [a, b, c]
    assert ((a + b) + (c + a)).parts == [a, b, c, a]
    assert (a * b * c).parts == [a, b, c]
    assert [type(p) for p in ((a + b) * c).parts] == [k.Sum, k.Constant]


def test_one_kernel_used_twice_is_learnt_once():
    rbf = k.RBF(0.7)
    twice = rbf + rbf
    x = points()
    torch.testing.assert_close(twice(x), 2 * rbf(x))
    torch.testing.assert_close((rbf * rbf)(x), rbf(x) ** 2)
    assert len(list(twice.parameters())) == 2


def test_numbers():
    scaled, shifted = 3 * k.RBF(), k.RBF() + 3
    assert [p.trainable for p in (scaled.parts[0].parameter("variance"), shifted.parts[1].parameter("variance"))] == [
        False,
        True,
    ]
    assert repr(k.RBF() + 1.0) == "RBF(lengthscale=1, variance=1) + Constant(variance=1)"
    assert repr((k.RBF() + 1.0) ** 2) == "(RBF(lengthscale=1, variance=1) + Constant(variance=1)) ** 2"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: k.RBF() + "x", "can be combined with kernels and positive numbers, got str"),
        (lambda: k.RBF() * -1.0, "positive and finite"),
        (lambda: k.RBF() ** 0.5, "positive whole number"),
        (lambda: k.RBF().on([]), "indices, names or a slice"),
        (lambda: k.RBF().on(7)(points()), "asks for a column"),
        (lambda: k.RBF()(torch.zeros(3)), r"for a single column use x\[:, None\]"),
        (lambda: k.RBF()(torch.zeros(3, 2), torch.zeros(3, 1)), "x has 2 columns but z has 1"),
        (lambda: k.RBF().replicate(0), "at least 1"),
        (lambda: k.Separate([k.RBF()]).replicate(2), "cannot be replicated"),
        (lambda: (k.Separate([k.RBF()]) + 1.0).replicate(2), "cannot be replicated"),
        (lambda: k.Additive(k.RBF()).replicate(2), r"kernel\.bind\(d\) before replicate"),
        (lambda: k.RBF().on(slice(5, 9))(points()), "selects none of the 2 columns"),
        (lambda: k.RBF().on(1.5), "indices, names or a slice"),
        (lambda: k.PairFunction(max).on(0), "acts on objects"),
        (lambda: k.PairFunction(max)("word"), r"pass a single text as \[text\]"),
        (lambda: k.RBF()([["a"]]), "must hold numbers"),
        (lambda: k.ArcCosine(degree=-1), "degree must be a whole number from 0 on"),
        (lambda: k.PiecewisePolynomial(2, dim=1)(points()), "at most 1 columns"),
        (lambda: k.Gibbs(0.3), "must be a function of the points"),
        (lambda: k.Gibbs(lambda x: x)(points()), "must return positive values"),
        (lambda: k.Precomputed(torch.eye(3))(torch.tensor([[3]])), "row numbers from 0 to 2"),
        (lambda: k.Precomputed(torch.ones(2, 3)), "symmetric square"),
    ],
)
def test_bad_use_is_named(make, message):
    with pytest.raises(InputError, match=message):
        make()


def test_columns_by_name_number_and_slice():
    x = points(6, 3)
    first = k.RBF(0.7)(x[:, [2, 0]])
    for kernel in (k.RBF(0.7).on([2, 0]), k.RBF(0.7).on(["c", "a"]), k.RBF(0.7).on([-1, "a"])):
        torch.testing.assert_close(kernel.bind(["a", "b", "c"])(x), first)
    torch.testing.assert_close(k.RBF(0.7).on(slice(1, 3))(x), k.RBF(0.7)(x[:, 1:]))


def test_kernel_computes_in_its_own_precision():
    x = points().float()
    assert k.RBF()(x).dtype == torch.float64
    assert k.RBF().float()(x.double()).dtype == torch.float32
    assert k.RBF()(torch.ones(3, 1, dtype=torch.long)).dtype == torch.float64
    assert k.RBF()([[0.0], [1.0]])[0, 1].item() == pytest.approx(0.6065306597126334)


def test_warping_module_is_learnt_with_the_kernel():
    network = torch.nn.Linear(2, 3)
    kernel = k.RBF().warp(network)
    kernel(points()).sum().backward()
    own = kernel.function.module
    assert own.weight.grad.abs().sum() > 0
    assert own.weight.dtype == torch.float64
    assert len(list(kernel.parameters())) == 4
    assert network.weight.dtype == torch.float32  # the user's module is as it was
    assert network.weight.grad is None
    assert kernel.describe().endswith(".warp(Linear)")


def restless():
    """A module that is a random function in training mode; its normalisation has moments 2 and 9."""
    norm = torch.nn.BatchNorm1d(2, affine=False, eps=0.0)
    norm.running_mean.fill_(2.0)
    norm.running_var.fill_(9.0)
    return torch.nn.Sequential(norm, torch.nn.Dropout(0.5))


@pytest.mark.parametrize("make", [lambda: k.RBF().warp(restless()), lambda: k.Linear(1.0).warp(restless()).train()])
def test_a_warped_kernel_is_deterministic(make):
    kernel, x = make(), points()
    plain = kernel.base((x - 2) / 3)
    holder = torch.nn.ModuleList([kernel, copy.deepcopy(kernel)]).train()
    for own in holder:
        torch.testing.assert_close(own(x), plain, rtol=0, atol=1e-12)
        torch.testing.assert_close(own.diag(x), plain.diagonal(), rtol=0, atol=1e-12)
    assert kernel.function.module[0].running_mean.tolist() == [2.0, 2.0]


def test_random_features_of_a_warped_kernel_are_deterministic():
    features = k.RBF().warp(restless()).random_features(20, 2, torch.Generator().manual_seed(0)).train()
    assert torch.equal(features(points()), features(points()))


def test_a_rescaled_kernel_is_deterministic():
    module = torch.nn.Sequential(restless(), torch.nn.Linear(2, 1))
    kernel, x = k.Rescaled(k.RBF(), module).train(), points()
    scale = (module.double().eval())(x)
    torch.testing.assert_close(kernel(x), scale * k.RBF()(x) * scale.mT, rtol=0, atol=1e-12)
    assert module is not kernel.function.module


def test_the_module_of_a_kernel_can_be_shared():
    first = k.RBF().warp(torch.nn.Linear(2, 3))
    both = copy.deepcopy(first + k.Linear(1.0).warp(first.function))
    assert both.parts[0].function is both.parts[1].function
    assert len(list(both.parameters())) == 5


def test_missing_abilities_say_so():
    q = Gaussian(points(), points().square())
    with pytest.raises(UnsupportedError, match="Gibbs has no closed-form expectation"):
        k.Gibbs(lambda x: 1 + x**2).psi1(q, points())
    with pytest.raises(UnsupportedError, match="Brownian has no random features"):
        k.Brownian().random_features(10, 1)


def test_devices():
    meta = k.RBF(ard=2).to("meta")
    assert meta(torch.zeros(3, 2, device="meta")).device.type == "meta"


def test_a_users_kernel_may_have_any_name():
    class Sum(k.Kernel):
        def forward(self, x, z):
            return torch.exp(-torch.cdist(x, z))

    assert isinstance(k.RBF() + Sum(), k.Sum)
    assert sum([k.RBF(), k.Linear()]).parts[0].describe().startswith("RBF")
    assert k.RBF().on(-1)(points()).shape == (9, 9)
