"""The checks of this session find wrong types and shapes of arguments and results, wherever a function stands."""

from collections.abc import Iterator
from dataclasses import dataclass

import pytest
import torch
from jaxtyping import Float
from torch import Tensor

from tests.typecheck import checked, typechecker

check = checked(typechecker=typechecker)


@check
def product(a: Float[Tensor, "n m"], b: Float[Tensor, " m"]) -> Float[Tensor, " n"]:
    return a @ b if a.sum() else b


@check
def rows(a: Float[Tensor, "n m"]) -> Iterator[Tensor]:
    yield from a


@check
def half(number: float) -> float:
    return number / 2 if number < 10 else "much"


@check
@dataclass
class Point:
    x: Float[Tensor, " d"]
    scale: float = 1.0


def inside():
    @check
    def total(*parts: Float[Tensor, " n"], **more: float) -> Float[Tensor, " n"]:
        return sum(parts) if more else torch.zeros(7)

    return total


def test_right_calls_pass():
    assert product(torch.ones(3, 2), torch.ones(2)).tolist() == [2.0] * 3
    assert product(torch.ones(5, 4), b=torch.ones(4)).shape == (5,)  # other sizes at another call
    assert half(3) == 1.5  # whole numbers count as floats
    assert len(list(rows(torch.ones(3, 2)))) == 3
    assert Point(torch.ones(2), scale=2).scale == 2
    assert inside()(torch.ones(2), torch.ones(2), by=1).tolist() == [2.0, 2.0]


@pytest.mark.parametrize(
    "call",
    [
        lambda: product(torch.ones(3, 2), torch.ones(3)),
        lambda: product(torch.ones(3, 2), torch.ones(2, dtype=torch.int64)),
        lambda: product(torch.zeros(3, 2), torch.zeros(2)),  # whose result has two entries
        lambda: product(torch.ones(3, 2), [1.0, 2.0]),
        lambda: half("3"),
        lambda: half(12),  # whose result is a text
        lambda: rows(torch.ones(3)),
        lambda: Point(torch.ones(2, 2)),
        lambda: Point(torch.ones(2), scale="2"),
        lambda: inside()(torch.ones(2), torch.ones(3), by=1),
        lambda: inside()(torch.ones(2), by="1"),
        lambda: inside()(torch.ones(2)),  # whose result has seven entries
    ],
)
def test_wrong_calls_are_found(call):
    with pytest.raises(TypeError, match=r"hint|[Tt]ype-check"):
        call()
