"""Kernels of counts: one count for both lists, sparse or dense products."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from scipy import sparse

from stratagp.kernels import ObjectKernel
from stratagp.kernels.objects import counted as counting
from stratagp.kernels.objects.counted import Counted, gram


class Letters(Counted, ObjectKernel):
    """Letters of words."""

    calls = 0

    def counts(self, objects: Sequence[Any]) -> sparse.csr_array:
        self.calls += 1
        found = [Counter(word) for word in objects]
        letters = sorted({letter for word in found for letter in word})
        return sparse.csr_array(np.array([[word[letter] for letter in letters] for word in found], dtype=float))


WORDS, OTHERS = ["abca", "bcd", "zz"], ["aab", "zebra"]


def product(a: str, b: str) -> float:
    return float(sum(count * Counter(b)[letter] for letter, count in Counter(a).items()))


def test_similarities_are_inner_products_of_counts() -> None:
    kernel = Letters(variance=1.0, normalise=False)
    expected = torch.tensor([[product(a, b) for b in OTHERS] for a in WORDS], dtype=torch.float64)
    torch.testing.assert_close(kernel.similarity(WORDS, OTHERS), expected)
    assert kernel.self_similarity(WORDS).tolist() == [product(a, a) for a in WORDS]


def test_one_count_serves_a_cache() -> None:
    kernel = Letters()
    cache = kernel.cache(WORDS, OTHERS)
    assert kernel.calls == 1
    size = np.sqrt(product("bcd", "bcd") * product("zebra", "zebra"))
    assert cache.cross[1, 1].item() == pytest.approx(product("bcd", "zebra") / size)
    kernel.cache(WORDS, WORDS)
    assert kernel.calls == 2


@pytest.mark.parametrize("density", [0.001, 0.2])
@pytest.mark.parametrize("cells", [2**26, 500])
def test_sparse_and_dense_products_agree(density: float, cells: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counting, "_CELLS", cells)
    rng = np.random.default_rng(0)
    left, right = (sparse.random_array((n, 300), density=density, rng=rng, format="csr") for n in (7, 5))
    expected = torch.from_numpy(left.toarray() @ right.toarray().T)
    torch.testing.assert_close(gram(left, right), expected)
