"""A kernel on fingerprints of molecules, and fingerprints and graphs from SMILES texts by RDKit."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence, Set
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from scipy import sparse
from torch import Tensor

from stratagp.errors import InputError
from stratagp.kernels.graphs.graph import Graph
from stratagp.kernels.objects.base import ObjectKernel
from stratagp.kernels.objects.counted import gram
from stratagp.kernels.objects.encoded import parsed
from stratagp.parameters import UNSET, Parameter, Value

_UNARY = 16  # mean count above which counts are compared by distance, not in unary
_CELLS = 2**24  # the most cells of a dense block of counts
_BONDS = {"SINGLE": "-", "DOUBLE": "=", "TRIPLE": "#", "QUADRUPLE": "$", "AROMATIC": ":"}


class Tanimoto(ObjectKernel):
    """The share of features that two fingerprints have in common (Ralaivola et al., 2005).

        s(a, b) = Σᵢ min(aᵢ, bᵢ) / Σᵢ max(aᵢ, bᵢ)

    for counts or other numbers ≥ 0; for bits it is the Jaccard index of two sets, ``|a ∩ b|/|a ∪ b|``. Fingerprints
    without any feature resemble only each other.

    Arguments:
        parse: a function that turns each object into a fingerprint, such as :func:`fingerprint` for SMILES texts.

    Objects are arrays of bits or counts of one length, sets of features, or mappings from features to counts.

    >>> from stratagp import kernels as k
    >>> k.Tanimoto()([{"a", "b"}, {"a": 2, "c": 1}], [{"a", "b"}])
    tensor([[1.0000],
            [0.2500]], dtype=torch.float64, grad_fn=...)
    """

    def __init__(
        self,
        variance: Value | Parameter = UNSET,
        lengthscale: Value | Parameter | None = None,
        parse: Callable[[Any], Any] | None = None,
    ) -> None:
        super().__init__(variance, lengthscale)
        self.parse = parse

    def similarity(self, a: Sequence[Any], b: Sequence[Any]) -> Float[Tensor, "n m"]:
        """``s(a, b)`` of all pairs."""
        phi = _features(parsed(a if a is b else [*a, *b], self.parse))
        left, right = (phi, phi) if a is b else (phi[: len(a)], phi[len(a) :])
        sizes = [torch.from_numpy(np.asarray(side.sum(axis=1), dtype=float)) for side in (left, right)]
        together = sizes[0][:, None] + sizes[1]
        least = _least(left, right)
        most = together - least
        return torch.where(most > 0, least / torch.where(most > 0, most, torch.ones_like(most)), 1.0)

    def self_similarity(self, a: Sequence[Any]) -> Float[Tensor, " n"]:
        """One for each object."""
        return torch.ones(len(a), dtype=torch.float64)


def _features(objects: Sequence[Any]) -> sparse.csr_array:
    """A row of counts for each object; columns have a meaning only within one call."""
    named = [isinstance(item, (Mapping, Set)) for item in objects]
    if any(named) and not all(named):
        raise InputError("fingerprints must be all arrays, or all sets and mappings: do not mix them")
    phi = _named_features(objects) if any(named) else _array_features(objects)
    if not (np.isfinite(phi.data) & (phi.data >= 0)).all():
        raise InputError("fingerprints must hold finite counts ≥ 0, but one has NaN, infinity or a negative count")
    return phi


def _named_features(objects: Sequence[Any]) -> sparse.csr_array:
    known: dict[Any, int] = {}
    columns = [known.setdefault(feature, len(known)) for item in objects for feature in item]
    rows = np.repeat(np.arange(len(objects)), [len(item) for item in objects])
    counts = [item.values() if isinstance(item, Mapping) else [1] * len(item) for item in objects]
    try:
        values = [float(count) for own in counts for count in own]
    except (TypeError, ValueError):
        raise InputError("a fingerprint that is a mapping must give a number for each feature") from None
    return sparse.coo_array((values, (rows, columns)), shape=(len(objects), max(1, len(known)))).tocsr()


def _array_features(objects: Sequence[Any]) -> sparse.csr_array:
    if any(isinstance(item, (str, bytes)) for item in objects):
        raise InputError("Tanimoto compares fingerprints, not texts: pass parse=fingerprint for SMILES")
    try:
        arrays = [np.asarray(item, dtype=float) for item in objects]
    except (TypeError, ValueError):
        raise InputError("fingerprints must be arrays of numbers, sets of features or mappings to counts") from None
    if any(item.ndim != 1 for item in arrays):
        raise InputError("each fingerprint must be one row of numbers, a set of features or a mapping to counts")
    lengths = sorted({len(item) for item in arrays})
    if len(lengths) > 1:
        raise InputError(f"fingerprints must all have one length, got {lengths[0]} and {lengths[-1]}")
    columns = [np.flatnonzero(item) for item in arrays]
    ends = np.cumsum([0, *(len(own) for own in columns)])
    values = np.concatenate([[], *(item[own] for item, own in zip(arrays, columns, strict=True))])
    places = np.concatenate([np.zeros(0, np.int64), *columns])
    return sparse.csr_array((values, places, ends), shape=(len(objects), max([1, *lengths])))


def _least(left: sparse.csr_array, right: sparse.csr_array) -> Float[Tensor, "n m"]:
    """``Σᵢ min(aᵢ, bᵢ)`` of all rows: products of counts in unary, or by distance if counts are large."""
    values = np.concatenate([left.data, right.data])
    if (values == np.round(values)).all() and values.sum() <= _UNARY * max(1, len(values)):
        highest = int(values.max(initial=1))
        return gram(_unary(left, highest), _unary(right, highest))
    return _least_by_distance(left, right)


def _unary(phi: sparse.csr_array, highest: int) -> sparse.csr_array:
    """Whole numbers ``c`` as the first ``c`` of ``highest`` ones, whose products are minima."""
    if highest == 1:
        return phi
    counts = phi.data.astype(np.int64)
    starts = np.repeat(np.cumsum(counts) - counts, counts)
    columns = np.repeat(phi.indices.astype(np.int64) * highest, counts) + np.arange(counts.sum()) - starts
    ends = np.concatenate([[0], np.cumsum(counts)])[phi.indptr]
    return sparse.csr_array((np.ones(len(columns)), columns, ends), shape=(phi.shape[0], phi.shape[1] * highest))


def _least_by_distance(left: sparse.csr_array, right: sparse.csr_array) -> Float[Tensor, "n m"]:
    """``Σ min(a, b) = ½ Σ (a + b − |a − b|)``, in blocks of columns."""
    sizes = [torch.from_numpy(np.asarray(side.sum(axis=1), dtype=float)) for side in (left, right)]
    apart = torch.zeros(left.shape[0], right.shape[0], dtype=torch.float64)
    by_column = left.tocsc(), right.tocsc()
    step = max(1, _CELLS // max(1, left.shape[0] + right.shape[0]))
    for start in range(0, left.shape[1], step):
        ours, theirs = (torch.from_numpy(side[:, start : start + step].toarray()) for side in by_column)
        apart += torch.cdist(ours, theirs, p=1.0)
    return (sizes[0][:, None] + sizes[1] - apart) / 2


def _rdkit(module: str) -> Any:
    try:
        return importlib.import_module(f"rdkit.{module}")
    except ImportError:
        raise InputError("this needs RDKit: pip install 'stratagp[molecules]'; read_smiles works without it") from None


def _molecule(smiles: str) -> Any:
    found = _rdkit("Chem").MolFromSmiles(smiles) if isinstance(smiles, str) else None
    if found is None:
        raise InputError(f"smiles must be a SMILES text that RDKit can read, got {smiles!r}")
    return found


def molecule_graph(smiles: str) -> Graph:
    """The graph of a molecule, read and standardised by RDKit.

    Atoms are labelled by their element, in lower case if aromatic, and their charge: ``"C"``, ``"c"``, ``"N+"``.
    Bonds are ``"-"``, ``"="``, ``"#"``, ``"$"`` or ``":"`` if aromatic. Hydrogen is left out as usual.

    >>> molecule_graph("CCO").labels  # doctest: +SKIP
    ('C', 'C', 'O')
    """
    molecule = _molecule(smiles)
    labels = [
        atom_label(atom.GetSymbol(), atom.GetIsAromatic(), atom.GetFormalCharge()) for atom in molecule.GetAtoms()
    ]
    bonds = ((bond.GetBeginAtomIdx(), bond.GetEndAtomIdx(), str(bond.GetBondType())) for bond in molecule.GetBonds())
    return Graph([(i, j, _BONDS.get(kind, kind)) for i, j, kind in bonds], labels)


def atom_label(symbol: str, aromatic: bool, charge: int) -> str:
    """An element, in lower case if aromatic, and its charge.

    >>> atom_label("N", True, 1), atom_label("Ca", False, 2)
    ('n+', 'Ca+2')
    """
    sign = "" if charge == 0 else "+" if charge > 0 else "-"
    return (symbol.lower() if aromatic else symbol) + sign + (str(abs(charge)) if abs(charge) > 1 else "")


def fingerprint(smiles: str, radius: int = 2, size: int | None = None, counts: bool = True) -> dict[int, int]:
    """Circular fragments of a molecule out to ``radius`` bonds (Morgan or ECFP), through RDKit.

    Arguments:
        smiles: the SMILES text of the molecule.
        radius: in bonds; 2 is known as ECFP4.
        size: fold fragments into this many features; None keeps them separate.
        counts: whether to count each fragment or only record that it occurs.

    Returns:
        The count of each fragment, by the fragment's number.

    >>> sum(fingerprint("CCO", radius=0).values())  # doctest: +SKIP
    3
    """
    options = {"radius": radius} if size is None else {"radius": radius, "fpSize": size}
    generator = _rdkit("Chem.rdFingerprintGenerator").GetMorganGenerator(**options)
    make = generator.GetSparseCountFingerprint if size is None else generator.GetCountFingerprint
    found = make(_molecule(smiles)).GetNonzeroElements()
    return {int(feature): int(count) if counts else 1 for feature, count in found.items()}
