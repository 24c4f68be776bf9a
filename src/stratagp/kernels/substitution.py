"""How alike amino acids are, by how often one has replaced another in the course of evolution."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

_ACIDS = "ARNDCQEGHILKMFPSTWYV"
_LOG_ODDS = """
 4
-1  5
-2  0  6
-2 -2  1  6
 0 -3 -3 -3  9
-1  1  0  0 -3  5
-1  0  0  2 -4  2  5
 0 -2  0 -1 -3 -2 -2  6
-2  0  1 -1 -3  0  0 -2  8
-1 -3 -3 -3 -1 -3 -3 -4 -3  4
-1 -2 -3 -4 -1 -2 -3 -4 -3  2  4
-1  2  0 -1 -3  1  1 -2 -1 -3 -2  5
-1 -1 -2 -3 -1  0 -2 -3 -2  1  2 -1  5
-2 -3 -3 -3 -2 -3 -3 -3 -1  0  0 -3  0  6
-1 -2 -2 -1 -3 -1 -1 -2 -2 -3 -3 -1 -2 -4  7
 1 -1  1  0 -1  0  0  0 -1 -2 -2  0 -1 -2 -1  4
 0 -1  0 -1 -1 -1 -1 -2 -2 -1 -1 -1 -1 -2 -1  1  5
-3 -3 -4 -4 -2 -2 -3 -2 -2 -3 -2 -3 -1  1 -4 -3 -2 11
-2 -2 -2 -3 -2 -1 -2 -3  2 -1 -1 -2 -1  3 -3 -2 -2  2  7
 0 -3 -3 -3 -1 -2 -2 -3 -3  3  1 -2  1 -1 -2 -2  0 -3 -1  4
"""  # in half bits; Henikoff and Henikoff, Proc. Natl. Acad. Sci. USA 89, 10915 (1992)


def blosum62() -> tuple[str, Float[Tensor, "20 20"]]:
    """The twenty amino acids by their letters, and their similarity with a diagonal of ones.

    An entry ``b`` of BLOSUM62 says that two acids stand in one place of related proteins ``2^(b/2)`` times as often as
    by chance; the similarity is that ratio, divided by the roots of those of each acid with itself.

    >>> letters, similarity = blosum62()
    >>> i, l, w = (letters.index(letter) for letter in "ILW")
    >>> similarity[i, l].item(), similarity[i, w].item()  # isoleucine is much like leucine, little like tryptophan
    (0.5, 0.02627...)
    """
    lower = torch.zeros(len(_ACIDS), len(_ACIDS), dtype=torch.float64)
    rows, columns = torch.tril_indices(len(_ACIDS), len(_ACIDS))
    lower[rows, columns] = torch.tensor([float(value) for value in _LOG_ODDS.split()], dtype=torch.float64)
    ratios = torch.exp2((lower + lower.tril(-1).mT) / 2)
    size = ratios.diagonal().sqrt()
    return _ACIDS, ratios / (size[:, None] * size)
