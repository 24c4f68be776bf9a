"""Object kernels on rows of similarities, against the kernels on the objects themselves."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from stratagp import kernels as k
from stratagp.errors import InputError
from stratagp.layers import Inducing

WORDS = ["gaussian", "process", "gauss", "prior", "kernel", "kernels", "posterior"]


def shared_letters(a: str, b: str) -> float:
    return float(len(set(a) & set(b)))


def shared_pairs(a: str, b: str) -> float:
    return float(len({a[i : i + 2] for i in range(len(a) - 1)} & {b[i : i + 2] for i in range(len(b) - 1)}))


LETTERS = k.PairFunction(shared_letters, variance=2.0)
WARPED = k.PairFunction(shared_letters, lengthscale=0.7)
PLAIN = k.PairFunction(shared_pairs, normalise=False)
KERNELS = {
    "one": LETTERS,
    "with a lengthscale": WARPED,
    "not normalised": PLAIN,
    "sum": LETTERS + PLAIN + 0.5,
    "product": LETTERS * (WARPED + PLAIN),
    "power": (LETTERS + PLAIN) ** 2,
}


@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS.keys())
def test_equals_the_kernel_on_objects(kernel: k.Kernel) -> None:
    anchors = k.Anchors(kernel, WORDS[:3])
    rows, others = anchors.rows(), anchors.encode(WORDS[3:])
    assert rows.shape[1] == anchors.columns
    torch.testing.assert_close(anchors.kernel(rows), kernel(WORDS[:3]), rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(anchors.kernel(others, rows), kernel(WORDS[3:], WORDS[:3]), rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(anchors.kernel(rows, others), kernel(WORDS[:3], WORDS[3:]), rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(anchors.kernel.diag(others), kernel.diag(WORDS[3:]), rtol=1e-12, atol=1e-12)


def test_functions_have_parameters_of_their_own() -> None:
    anchors = k.Anchors(k.PairFunction(shared_letters, lengthscale=1.0), WORDS[:3])
    kernel = anchors.kernel.replicate(2)
    with torch.no_grad():
        next(item for item in kernel.named_values() if item.name.endswith("lengthscale")).parameter.assign([1.0, 2.0])
    found = kernel(anchors.encode(WORDS[3:]), anchors.rows())
    for i, lengthscale in enumerate((1.0, 2.0)):
        alone = k.PairFunction(shared_letters, lengthscale=lengthscale)
        torch.testing.assert_close(found[i], alone(WORDS[3:], WORDS[:3]), rtol=1e-12, atol=1e-12)


def test_an_inducing_layer_conditions_on_objects() -> None:
    """With values at the anchors that are certain, the mean interpolates them and elsewhere is k(x, z) Kzz⁻¹ u."""
    kernel = k.PairFunction(shared_letters, lengthscale=0.5, variance=1.0)
    anchors, values = k.Anchors(kernel, WORDS[:4]), torch.tensor([1.0, -1.0, 0.5, 2.0], dtype=torch.float64)
    layer = Inducing(anchors.kernel, anchors.rows(), jitter=1e-10)
    with torch.no_grad():
        layer.posterior.mean.copy_(layer.whitener() @ values)
        layer.posterior.scale.zero_()
        at_anchors, elsewhere = layer(anchors.rows()), layer(anchors.encode(WORDS[4:]))
        expected = kernel(WORDS[4:], WORDS[:4]) @ torch.linalg.solve(kernel(WORDS[:4]), values)
    torch.testing.assert_close(at_anchors.mean[:, 0], values, rtol=0, atol=1e-8)
    torch.testing.assert_close(elsewhere.mean[:, 0], expected, rtol=0, atol=1e-8)


def test_nothing_moves_the_anchors() -> None:
    anchors = k.Anchors(LETTERS, WORDS[:3])
    rows = anchors.rows().requires_grad_()
    assert torch.autograd.grad(anchors.kernel(rows).sum(), rows, allow_unused=True)[0] is None


def test_two_objects_that_are_no_anchors() -> None:
    anchors = k.Anchors(LETTERS, WORDS[:3])
    with pytest.raises(InputError, match="one of them is an anchor"):
        anchors.kernel(anchors.encode(WORDS[3:]))


def test_chosen_anchors_are_distinct() -> None:
    words = ["abc", "cab", "bca", "xyz", "abc", "abx"]  # the first three have the same letters
    chosen = k.choose_anchors(LETTERS, words, 6, torch.Generator().manual_seed(0))
    assert sorted("".join(sorted(words[i])) for i in chosen) == ["abc", "abx", "xyz"]
    assert len(k.choose_anchors(LETTERS, words, 2, torch.Generator().manual_seed(0))) == 2


def test_anchors_are_found_among_many_copies() -> None:
    words = ["abc"] * 500 + ["abx", "xyz", "a", ""]
    for seed in range(5):
        for kernel, empty in ((LETTERS, {""}), (k.PairFunction(shared_letters, normalise=False), set())):
            chosen = k.choose_anchors(kernel, words, 5, torch.Generator().manual_seed(seed))
            assert {words[i] for i in chosen} == {"abc", "abx", "xyz", "a"} | empty


def test_a_similarity_that_is_no_kernel() -> None:
    far = k.PairFunction(lambda a, b: 1.0 - abs(len(a) - len(b)))
    with pytest.raises(InputError, match="not positive semi-definite"):
        k.choose_anchors(far, WORDS, 4, torch.Generator().manual_seed(0))


def test_functions_of_objects_share_their_inducing_values() -> None:
    """Draws against the covariance ``aᵀS a`` of values given at anchors, and ``k − aᵀa`` for each row by itself."""
    anchors, new = k.Anchors(LETTERS, WORDS[:3]), WORDS[3:7]
    layer, rows = Inducing(anchors.kernel, anchors.rows(), functions=40_000), anchors.encode(new)
    with torch.no_grad():
        layer.posterior.mean.copy_(torch.tensor([1.0, -2.0, 0.5]).expand(40_000, 3))
        layer.posterior.scale.mul_(0.3)
        drawn = layer.draw(torch.Generator().manual_seed(0))(rows).numpy().T
        K = LETTERS(WORDS[:7]).numpy()
    a = np.linalg.solve(np.linalg.cholesky(K[:3, :3]), K[:3, 3:])
    cov = 0.09 * a.T @ a + np.diag(np.diag(K)[3:] - (a**2).sum(0))
    np.testing.assert_allclose(drawn.mean(0), np.array([1.0, -2.0, 0.5]) @ a, atol=0.02)
    np.testing.assert_allclose(np.cov(drawn.T), cov, atol=0.03)


def test_medoids_are_the_middles_of_clusters() -> None:
    """Two clusters on a line: their medians, whatever the start."""
    numbers = [0.0, 0.1, 0.2, 0.3, 0.4, 5.0, 5.1, 5.2]
    bell = k.PairFunction(lambda a, b: float(torch.exp(torch.tensor(-0.5 * (a - b) ** 2))), normalise=False)
    for seed in range(5):
        chosen = k.choose_anchors(bell, numbers, 2, torch.Generator().manual_seed(seed), way="medoids")
        assert sorted(numbers[i] for i in chosen) == [0.2, 5.1]


def test_greedy_anchors_are_pivots_of_a_cholesky_factorisation() -> None:
    """Each is the object of the largest conditional variance given those before it, computed here by dense algebra."""
    kernel = k.PairFunction(shared_pairs, variance=1.0, lengthscale=0.8)
    chosen = k.choose_anchors(kernel, WORDS, 4, torch.Generator().manual_seed(0), way="greedy").tolist()
    K = kernel(WORDS).detach()
    for step in range(1, 4):
        given = chosen[:step]
        left = K.diagonal() - (K[:, given] @ torch.linalg.inv(K[given][:, given]) * K[:, given]).sum(1)
        assert left[chosen[step]] >= left.max() - 1e-9
    assert len(k.choose_anchors(LETTERS, ["ab", "ba", "cd"], 3, way="greedy")) == 2  # the third adds nothing
    with pytest.raises(InputError, match="way must be one of"):
        k.choose_anchors(LETTERS, WORDS, 3, way="best")


def test_anchors_of_kernels_with_functions_and_of_objects_without_features() -> None:
    assert len(k.choose_anchors(k.Spectrum(1).replicate(2), WORDS, 3, way="medoids")) == 3
    nothing = k.Spectrum(9, normalise=False)
    for way in ("random", "medoids", "greedy"):
        assert len(k.choose_anchors(nothing, ["a"] * 5, 3, way=way)) == 1
    with pytest.raises(InputError, match="at least one object"):
        k.choose_anchors(LETTERS, [], 3, way="greedy")
