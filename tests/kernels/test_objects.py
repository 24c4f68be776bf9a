import pytest
import torch

from stratagp import kernels as k
from stratagp.errors import InputError

WORDS = ["gaussian", "process", "kernel", "", "gauss", ""]


def shared(a, b):
    return len(set(a) & set(b))


def test_cache_gives_the_kernel_at_any_hyperparameter():
    kernel = k.PairFunction(shared, lengthscale=0.7)
    cache = kernel.cache(WORDS, WORDS[:3])
    kernel.set(lengthscale=1.9, variance=2.5)
    torch.testing.assert_close(kernel.from_cache(cache), kernel(WORDS, WORDS[:3]))
    kernel.from_cache(cache).sum().backward()
    assert kernel.parameter("lengthscale").raw.grad.abs() > 0


def test_objects_without_features_are_alike_to_one_another_alone():
    gram = k.PairFunction(shared)(WORDS).detach()
    assert gram[3].tolist() == [0, 0, 0, 1, 0, 1]
    assert gram.diagonal().tolist() == pytest.approx([1.0] * 6)
    assert torch.linalg.eigvalsh(gram).min() > -1e-12


def test_unnormalised():
    kernel = k.PairFunction(shared, variance=2.0, normalise=False)
    assert kernel(["ab"], ["bc", "xy", "abc"]).tolist() == [[2.0, 0.0, 4.0]]
    assert kernel.diag(WORDS[:2]).tolist() == pytest.approx([2.0 * len(set(w)) for w in WORDS[:2]])
    with pytest.raises(InputError, match="needs normalise=True"):
        k.PairFunction(shared, lengthscale=1.0, normalise=False)


def test_sums_and_functions_of_object_kernels():
    both = k.PairFunction(shared) + k.PairFunction(lambda a, b: float(a[:1] == b[:1]))
    assert both(["ab"], ["ac"]).item() == pytest.approx(0.5 + 1.0)
    assert both.replicate(3)(WORDS[:2], WORDS).shape == (3, 2, 6)


def test_cached_rows_train_without_the_objects():
    calls = []
    kernel = k.PairFunction(lambda a, b: calls.append(1) or shared(a, b), lengthscale=0.7).cached(WORDS[:3])
    rows = torch.arange(3.0)[:, None]
    before = len(calls)
    kernel(rows).sum().backward()
    assert len(calls) == before
    assert kernel.base.parameter("lengthscale").raw.grad.abs() > 0
    torch.testing.assert_close(kernel(rows), kernel.base(WORDS[:3]))


@pytest.mark.parametrize("scale", [1e-180, 1e180])
def test_normalisation_survives_extreme_similarities(scale):
    plain = k.PairFunction(shared)(WORDS[:3])
    torch.testing.assert_close(k.PairFunction(lambda a, b: scale * shared(a, b))(WORDS[:3]), plain)


def test_numbers_combine_with_object_kernels():
    kernel = 2 * k.PairFunction(shared) + 1.0
    assert kernel(["ab"], ["bc"]).item() == pytest.approx(2.0)
    assert kernel.diag(["ab", "c"]).tolist() == pytest.approx([3.0, 3.0])


def test_indefinite_similarities_are_refused():
    with pytest.raises(InputError, match="not positive semi-definite"):
        k.PairFunction(lambda a, b: -abs(len(a) - len(b)))(WORDS)


@pytest.mark.parametrize(
    ("value", "shown"), [(float("nan"), "nan"), (None, "None"), ("3", "'3'"), ([1, 2], r"\[1, 2\]")]
)
def test_a_similarity_that_is_no_number_is_named_with_its_pair(value, shown):
    kernel = k.PairFunction(lambda a, b: value if {a, b} == {"ab", "cd"} else 1.0)
    with pytest.raises(InputError, match=rf"of 'cd' and 'ab' \(rows 2 and 1 of the lists .*\) it made {shown}"):
        kernel(["x", "ab", "cd"])
    with pytest.raises(InputError, match=r"of 'ab' and 'cd' \(rows 0 and 1 "):
        kernel(["ab"], ["x", "cd"])


def test_an_object_whose_own_similarity_is_no_number():
    kernel = k.PairFunction(lambda a, b: None if a == b == "long" * 20 else 1.0)
    with pytest.raises(InputError, match=r"of 'longlong.*… and 'long.*… \(rows 1 and 1 of .*\) it made None"):
        kernel.self_similarity(["x", "long" * 20])


def test_long_lists_of_columns_are_printed_shortly():
    assert repr(k.RBF().on(list(range(12)))).endswith(".on([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11])")
    assert repr(k.RBF().on(list(range(13)))).endswith(".on([0, 1 … 12])")
