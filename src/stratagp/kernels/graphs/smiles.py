"""Reads SMILES texts without any library: atoms, bonds, branches, rings and brackets."""

from __future__ import annotations

import re

from stratagp.errors import InputError
from stratagp.kernels.graphs.graph import Graph
from stratagp.kernels.graphs.molecules import atom_label

_TOKEN = re.compile(
    r"""\[(?P<isotope>\d+)?(?P<symbol>[A-Z][a-z]?|[a-z][a-z]?|\*)(?:@(?:@|[A-Z]{2}\d+)?)?(?:H\d*)?
        (?P<charge>\++\d*|-+\d*)?(?::\d+)?\]
    |(?P<organic>Br|Cl|[BCNOPSFI]|[bcnops]|\*)
    |(?P<bond>[-=\#$:/\\])
    |(?P<ring>\d|%\d\d)
    |(?P<mark>[().])""",
    re.VERBOSE,
)
_AROMATIC = {"b", "c", "n", "o", "p", "s", "se", "as", "te", "si"}


class _Reader:
    """The state of a text read so far."""

    def __init__(self, smiles: str) -> None:
        self.smiles = smiles
        self.labels: list[str] = []
        self.bonds: list[tuple[int, int, str]] = []  # the kind is empty if the text gives none
        self.hydrogens: set[int] = set()  # plain ones, left out beside a heavier atom
        self.rings: dict[str, tuple[int, str]] = {}
        self.branches: list[int] = []
        self.last: int | None = None
        self.kind = ""

    def read(self) -> Graph:
        place = 0
        while place < len(self.smiles):
            token = _TOKEN.match(self.smiles, place)
            if token is None:
                raise self._wrong(f"{self.smiles[place:]!r} is not an atom, bond, ring or branch")
            self._take(token)
            place = token.end()
        if self.branches or self.rings or self.kind:
            raise self._wrong("a branch, a ring or a bond is not closed")
        return self._graph()

    def _take(self, token: re.Match[str]) -> None:
        if token["organic"]:
            self._atom(token["organic"])
        elif token["symbol"]:
            self._bracket(token)
        elif token["bond"]:
            if self.kind or self.last is None:
                raise self._wrong(f"the bond {token['bond']} has no atom before it")
            self.kind = "-" if token["bond"] in "/\\" else token["bond"]
        elif token["ring"]:
            self._ring(token["ring"].lstrip("%").lstrip("0") or "0")
        else:
            self._mark(token["mark"])

    def _bracket(self, token: re.Match[str]) -> None:
        symbol, sign = token["symbol"], token["charge"] or ""
        if symbol.islower() and symbol not in _AROMATIC:
            raise self._wrong(f"{symbol} is not an element")
        size = int(sign.lstrip("+-") or sign.count("+") + sign.count("-"))
        if symbol == "H" and not token["isotope"] and not size:
            self.hydrogens.add(len(self.labels))
        self._atom(atom_label(symbol, False, -size if sign.startswith("-") else size))

    def _atom(self, label: str) -> None:
        self.labels.append(label)
        if self.last is not None:
            self.bonds.append((self.last, len(self.labels) - 1, self.kind))
        self.last, self.kind = len(self.labels) - 1, ""

    def _ring(self, number: str) -> None:
        if self.last is None:
            raise self._wrong(f"ring {number} has no atom before it")
        if number not in self.rings:
            self.rings[number] = self.last, self.kind
        else:
            start, kind = self.rings.pop(number)
            if start == self.last or (kind and self.kind and kind != self.kind):
                raise self._wrong(f"ring {number} does not close")
            self.bonds.append((start, self.last, kind or self.kind))
        self.kind = ""

    def _mark(self, mark: str) -> None:
        if self.kind or (mark == "(" and self.last is None) or (mark == ")" and not self.branches):
            raise self._wrong(f"{mark} is out of place")
        if mark == "(" and self.last is not None:
            self.branches.append(self.last)
        else:
            self.last = self.branches.pop() if mark == ")" else None

    def _wrong(self, why: str) -> InputError:
        return InputError(f"smiles {self.smiles!r} cannot be read: {why}")

    def _graph(self) -> Graph:
        beside: list[set[int]] = [set() for _ in self.labels]
        for i, j, _ in self.bonds:
            beside[i].add(j)
            beside[j].add(i)
        dropped = {i for i in self.hydrogens if len(beside[i]) == 1 and not beside[i] <= self.hydrogens}
        kept = {i: new for new, i in enumerate(i for i in range(len(self.labels)) if i not in dropped)}
        bonds = [bond for bond in self.bonds if {*bond[:2]} <= kept.keys()]
        edges = [(kept[i], kept[j], kind or self._implied(i, j, beside)) for i, j, kind in bonds]
        return Graph(edges, [self.labels[i] for i in kept])

    def _implied(self, i: int, j: int, beside: list[set[int]]) -> str:
        """The kind of an unwritten bond: aromatic between aromatic atoms of one ring, else single."""
        return ":" if self.labels[i][0].islower() and self.labels[j][0].islower() and _ringed(i, j, beside) else "-"


def _ringed(i: int, j: int, beside: list[set[int]]) -> bool:
    """Whether a path besides the bond itself leads from ``i`` to ``j``."""
    seen, reached = {i}, list(beside[i] - {j})
    while reached:
        atom = reached.pop()
        if atom == j:
            return True
        if atom not in seen:
            seen.add(atom)
            reached.extend(beside[atom] - seen)
    return False


def read_smiles(smiles: str) -> Graph:
    """The graph of a molecule as its SMILES text writes it, without RDKit.

    Labels are those of :func:`molecule_graph`. Rings written with double bonds keep them, although RDKit may find them
    aromatic; texts in RDKit's standard form give the same graph both ways. Isotopes, parities and hydrogen counts are
    dropped.

    >>> read_smiles("CC(=O)[O-]")
    Graph(edges=((0, 1, '-'), (1, 2, '='), (1, 3, '-')), labels=('C', 'C', 'O', 'O-'), directed=False)
    """
    if not isinstance(smiles, str):
        raise InputError(f"smiles must be a text, got {type(smiles).__name__}")
    return _Reader(smiles.strip()).read()
