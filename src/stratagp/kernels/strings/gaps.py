"""String kernels on words with gaps between their symbols, and on pairs and triples of words."""

from __future__ import annotations

from itertools import combinations, product

from stratagp.errors import InputError
from stratagp.kernels.objects.base import ObjectKernel
from stratagp.kernels.settings import share, whole
from stratagp.kernels.strings.base import CountedPatterns, Unknown, choices, refuse_many
from stratagp.kernels.strings.patterns import Pattern
from stratagp.parameters import UNSET, Parameter, Value

_MOST = 2 * 10**4  # patterns of one kind
_MOST_KINDS = 10**4


class Gapped(CountedPatterns, ObjectKernel):
    """Words of ``k`` symbols that stand in a window of ``g``, in order but with gaps.

    ``φ_w(a)`` is the number of windows of ``g`` symbols that contain ``w`` at all. With a ``decay``, every way in which
    a window contains ``w`` counts, by ``decay^gaps`` with the number of symbols left out between first and last.

    >>> Gapped(3, 2, normalise=False)(["aab"], ["aab", "ab", "acb"]).tolist()  # aa, ab
    [[2.0, 0.0, 1.0]]
    >>> Gapped(3, 2, decay=0.5, normalise=False)(["aab"], ["aab", "ab", "acb"]).tolist()  # aa, 1.5 ab
    [[3.25, 0.0, 0.75]]
    """

    def __init__(
        self,
        g: int = 6,
        k: int = 4,
        decay: float | None = None,
        *,
        unknown: Unknown = None,
        positions: int = 1,
        variance: Value | Parameter = UNSET,
        lengthscale: Value | Parameter | None = None,
        normalise: bool = True,
    ) -> None:
        super().__init__(variance, lengthscale, normalise)
        self._read(unknown, positions)
        self.g, self.k = whole(g, "g"), whole(k, "k")
        self.decay = None if decay is None else share(decay, "decay")
        self.once = decay is None
        if self.k > self.g:
            raise InputError(f"k must be at most g={g}, got {k}: words of k symbols stand in windows of g")
        self._check_number()

    def _check_number(self) -> None:
        refuse_many(choices(self.g, self.k), self.k, _MOST, "lower g or k")

    def patterns(self) -> list[Pattern]:
        """Each choice of ``k`` places in a window; all are of one kind."""
        self._check_number()
        chosen = combinations(range(self.g), self.k)
        return [Pattern(at, self.g, (self.decay or 1.0) ** (at[-1] - at[0] + 1 - self.k)) for at in chosen]

    def _own_settings(self) -> str:
        return f"g={self.g}, k={self.k}" + ("" if self.decay is None else f", decay={self.decay:g}")


class Double(CountedPatterns, ObjectKernel):
    """Pairs of words of ``k`` symbols with a gap of ``0 … d − 1`` symbols between them; the gap is part of the feature.

    The sparse spatial sample kernel of Kuksa, Huang and Pavlovic for two samples: ``φ_{v,g,w}(a)`` is the number of
    times that ``v``, then any ``g`` symbols, then ``w`` stand in ``a``. ``Double(1, 5)`` counts ordered pairs of
    symbols at distances 1 to 5.

    >>> Double(1, 2, normalise=False)(["abc"], ["abc", "ac", "ab"]).tolist()  # ab, bc, a.c
    [[3.0, 0.0, 1.0]]
    """

    def __init__(
        self,
        k: int = 1,
        d: int = 5,
        *,
        unknown: Unknown = None,
        positions: int = 1,
        variance: Value | Parameter = UNSET,
        lengthscale: Value | Parameter | None = None,
        normalise: bool = True,
    ) -> None:
        super().__init__(variance, lengthscale, normalise)
        self._read(unknown, positions)
        self.k, self.d = whole(k, "k"), whole(d, "d")
        check_samples(2, self.k, self.d)

    def patterns(self) -> list[Pattern]:
        """One for each choice of gaps."""
        return samples(2, self.k, self.d)

    def _own_settings(self) -> str:
        return f"k={self.k}, d={self.d}"


class Triple(CountedPatterns, ObjectKernel):
    """Three words of ``k`` symbols with gaps of ``0 … d − 1`` symbols between them; the gaps are part of the feature.

    ``Triple(1, 3)`` counts ordered triples of symbols, each at most 3 after the one before.

    >>> Triple(1, 2, normalise=False)(["abcd"], ["abcd", "axbd"]).tolist()  # abc, bcd, ab.d, a.cd
    [[4.0, 0.0]]
    """

    def __init__(
        self,
        k: int = 1,
        d: int = 3,
        *,
        unknown: Unknown = None,
        positions: int = 1,
        variance: Value | Parameter = UNSET,
        lengthscale: Value | Parameter | None = None,
        normalise: bool = True,
    ) -> None:
        super().__init__(variance, lengthscale, normalise)
        self._read(unknown, positions)
        self.k, self.d = whole(k, "k"), whole(d, "d")
        check_samples(3, self.k, self.d)

    def patterns(self) -> list[Pattern]:
        """One for each choice of gaps."""
        return samples(3, self.k, self.d)

    def _own_settings(self) -> str:
        return f"k={self.k}, d={self.d}"


def check_samples(count: int, k: int, d: int) -> None:
    """Refuse too many choices of gaps."""
    refuse_many(d ** (count - 1), count * k, _MOST_KINDS, "lower k, or how long gaps may be")


def samples(count: int, k: int, d: int) -> list[Pattern]:
    """``count`` words of ``k`` symbols after one another with gaps below ``d``, every choice of gaps its own kind."""
    check_samples(count, k, d)
    made = []
    for kind, gaps in enumerate(product(range(d), repeat=count - 1)):
        starts = [sum(gaps[:i]) + k * i for i in range(count)]
        offsets = tuple(start + j for start in starts for j in range(k))
        made.append(Pattern(offsets, offsets[-1] + 1, kind=kind))
    return made


class GappyPair(CountedPatterns, ObjectKernel):
    """Pairs of words of ``k`` symbols with at most ``m`` symbols between them: ``Double(k, m + 1)`` by another name.

    >>> GappyPair(1, 1, normalise=False)(["abc"], ["abc", "ac", "ab"]).tolist()  # ab, bc, a.c
    [[3.0, 0.0, 1.0]]
    """

    def __init__(
        self,
        k: int = 1,
        m: int = 4,
        *,
        unknown: Unknown = None,
        positions: int = 1,
        variance: Value | Parameter = UNSET,
        lengthscale: Value | Parameter | None = None,
        normalise: bool = True,
    ) -> None:
        super().__init__(variance, lengthscale, normalise)
        self._read(unknown, positions)
        self.k, self.m = whole(k, "k"), whole(m, "m", 0)
        check_samples(2, self.k, self.m + 1)

    def patterns(self) -> list[Pattern]:
        """One for each gap."""
        return samples(2, self.k, self.m + 1)

    def _own_settings(self) -> str:
        return f"k={self.k}, m={self.m}"
