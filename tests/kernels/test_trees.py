import numpy as np
import pytest

from stratagp import kernels as k
from stratagp.errors import InputError
from stratagp.kernels.graphs import trees
from tests.kernels.cases_structures import assert_well_behaved, normalised, random_tree, subset_tree, subtree

MANY = [random_tree(np.random.default_rng(seed)) for seed in range(30)]
SENTENCE = ("S", ("NP", "D", "N"), ("VP", "V"))


@pytest.mark.parametrize(
    ("kernel", "truth"),
    [(k.Subtree(), subtree), (k.SubsetTree(0.3), subset_tree(0.3))],
    ids=["Subtree", "SubsetTree"],
)
def test_many_random_trees(kernel, truth):
    np.testing.assert_allclose(kernel(MANY).detach(), normalised(truth)(MANY, MANY), rtol=0, atol=1e-12)
    assert_well_behaved(kernel, MANY)


def test_blocks_of_trees(monkeypatch):
    whole = k.SubsetTree(0.3)(MANY).detach()
    monkeypatch.setattr(trees, "_NODES", 20)
    np.testing.assert_allclose(k.SubsetTree(0.3)(MANY).detach(), whole, rtol=0, atol=1e-14)
    np.testing.assert_allclose(k.SubsetTree(0.3)(MANY[:11], MANY).detach(), whole[:11], rtol=0, atol=1e-14)


def test_a_sentence_counted_by_hand():
    # fragments: NP→DN, VP→V, and S→NP VP with each of its two children opened or not
    one = k.SubsetTree(0.5, normalise=False)
    assert one([SENTENCE], [SENTENCE]).item() == pytest.approx(0.5 + 0.5 + 0.5 * 1.5**2)
    assert one([SENTENCE], [("NP", "D", "N"), ("NP", "N", "D")]).tolist() == [[0.5, 0.0]]
    assert one.diag([SENTENCE, "D"]).tolist() == pytest.approx([2.125, 0.0])
    assert k.Subtree(normalise=False)([SENTENCE], ["D", ("VP", "V"), ("VP", "D")]).tolist() == [[1.0, 2.0, 1.0]]


def test_a_leaf_is_its_label_in_brackets_or_without():
    spelt = ["S", ["NP", ["D"], ("N",)], ("VP", ("V",))]
    for kernel in (k.Subtree(normalise=False), k.SubsetTree(normalise=False)):
        assert kernel([spelt], [SENTENCE]).item() == kernel([SENTENCE], [SENTENCE]).item()


def test_deep_trees():
    chain = "a"
    for _ in range(5000):
        chain = ("a", chain)
    assert k.Subtree(normalise=False)([chain], [chain, "a"]).tolist() == [[5001.0, 1.0]]
    # Δ of equal heights h and g is Σ_{i=1}^{min(h, g)} ½^i = 1 − ½^min(h, g)
    short = chain
    for _ in range(4900):
        short = short[1]
    low = np.minimum.outer(np.arange(101), np.arange(101))
    found = k.SubsetTree(0.5, normalise=False)([short], [short]).item()
    assert found == pytest.approx((1 - 0.5**low).sum(), rel=1e-12)


def test_too_many_fragments_are_refused():
    tree = "a"
    for _ in range(12):
        tree = ("a", tree, tree)
    with pytest.raises(InputError, match="lower decay"):
        k.SubsetTree(1.0)([tree])
    assert k.SubsetTree(0.1)([tree], [tree[1]]).item() > 0.1


def test_parse_is_applied_to_each_object():
    kernel = k.Subtree(parse=lambda text: tuple(text.split()))
    assert kernel(["NP D N"], ["NP N D"]).item() == pytest.approx(2 / 3)
    kernel = k.SubsetTree(parse=lambda text: tuple(text.split()))
    np.testing.assert_allclose(kernel(["NP D N", "NP N D"]).detach(), np.eye(2), rtol=0, atol=1e-14)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: k.SubsetTree(0.0), "decay must be a number above 0 and at most 1"),
        (lambda: k.SubsetTree(1.5), "decay must be a number above 0 and at most 1"),
        (lambda: k.Subtree()([()]), "does not start with a label"),
        (lambda: k.Subtree()([(("a", "b"), "c")]), "does not start with a label"),
        (lambda: k.Subtree()([[]]), r"hashable labels.*got label \[\]"),
        (lambda: k.SubsetTree()([("a", {"b": 1})]), "hashable labels"),
    ],
)
def test_what_is_refused(make, message):
    with pytest.raises(InputError, match=message):
        make()
