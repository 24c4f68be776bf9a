"""From a table with numbers, dates and categories to the numbers that a kernel sees."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float64
from scipy import sparse
from torch import Tensor

from stratagp.data.columns import Kind, categories_of, is_missing, is_present, objects, to_codes, to_numbers
from stratagp.data.dates import parts_of, wave_names, waves
from stratagp.data.ngrams import Ngrams
from stratagp.data.schema import is_text, kind_of
from stratagp.data.tables import Column, Table, as_array, is_frame, is_pandas, read_table
from stratagp.errors import InputError, RowError

_SHOWN = 10  # columns listed in a message
_CHOICES = {
    "encoding": ("one-hot", "codes"),
    "missing": ("raise", "impute"),
    "unknown": ("raise", "ignore", "new"),
    "dates": ("days", "parts"),
}
_ENOUGH_GAPS = 5  # in a column of categories, from which on a gap is a category
_GAP = "(missing)"  # its name
_MANY = 50  # distinct texts, above which a column may not hold categories


class EncodedTable(NamedTuple):
    """Numbers for a kernel and a mask of missing ones (NaN in ``values``); None if none is missing.

    >>> TableEncoder(missing="impute").fit_transform([[1.5], [None]]).missing.tolist()
    [[False], [True]]
    """

    values: Float64[np.ndarray, "n d"]
    missing: Bool[np.ndarray, "n d"] | None


class TableEncoder:
    """Columns of numbers as they are, dates and durations in days, categories as indicators or codes, texts as points.

    one-hot: xⱼ = [value is category j], j = 1 … k;   codes: x = j ∈ {0, …, k−1}

    A date is the number of days since 1970-01-01, and with ``dates="parts"`` also sine and cosine of the time of the
    year, of the week and of the day, as far as the dates of ``fit`` tell these apart. A pandas categorical has all the
    categories that it declares, in their order; another column has the values seen in ``fit``, sorted. Frames are
    matched by the names of their columns, in any order; arrays by position.

    A missing category is NaN in each of its indicators. But where ``missing="impute"`` meets five gaps or more in a
    column of categories, a gap is a category of its own: it often means something ("no garage").

    Arguments:
        categorical: names or positions of the columns with categories. ``"auto"`` means, in a frame, the columns of
            text, booleans, categoricals and objects that are not all numbers; in an array, none.
        encoding: ``"one-hot"`` (k columns for k categories, none dropped) or ``"codes"``.
        missing: ``"raise"`` refuses NaN, None and NA; ``"impute"`` keeps them as NaN, for :class:`GaussianImputer`.
        unknown: ``"raise"`` refuses categories that ``fit`` did not see; ``"ignore"`` gives them zeros in one-hot
            encoding; ``"new"`` a place that is as far from each category as these are from one another (for one of k,
            all k indicators are (1 − √(k + 1)) / k), with a warning. Codes have no such values and always refuse them.
        name: the name of the caller, for messages.
        imputes: whether the caller has an argument ``missing`` that messages may recommend.
        texts: names of the columns of text that become points by their n-grams (:class:`Ngrams`), a missing one like an
            empty one. ``"auto"`` means the columns of text most of whose values differ.
        dates: ``"days"``, or ``"parts"`` for what repeats as well.

    After ``fit``: ``names_in`` (None for arrays), ``columns`` (names of the encoded columns), ``source`` (the input
    column of each), ``categories`` (of each categorical column, by name), ``is_categorical`` (for each input column),
    ``nearly_unique`` (the number of values of each column treated as categories although most rows differ), ``gaps``
    (the columns whose gaps are a category).

    >>> encoder = TableEncoder(categorical=[1])
    >>> encoder.fit_transform([[1.5, "red"], [2.5, "blue"]]).values
    array([[1.5, 0. , 1. ],
           [2.5, 1. , 0. ]])
    >>> encoder.columns, encoder.source
    (['x0', 'x1=blue', 'x1=red'], [0, 1, 1])
    """

    def __init__(
        self,
        categorical: Any = "auto",
        encoding: str = "one-hot",
        missing: str = "raise",
        unknown: str = "raise",
        name: str = "TableEncoder",
        imputes: bool = True,
        texts: Any = (),
        dates: str = "days",
    ) -> None:
        given = {"encoding": encoding, "missing": missing, "unknown": unknown, "dates": dates}
        for argument, choices in _CHOICES.items():
            if given[argument] not in choices:
                said = ", ".join(map(repr, choices))
                raise InputError(f"{argument} must be one of {said}, got {given[argument]!r}")
        is_list = categorical is None or (isinstance(categorical, Iterable) and not isinstance(categorical, str))
        if not is_list and categorical != "auto":
            raise InputError(
                f"categorical must be 'auto' or a list of columns, got {categorical!r}: write [{categorical!r}]"
            )
        self.categorical, self.encoding, self.missing, self.unknown = categorical, encoding, missing, unknown
        self.name, self.imputes, self.texts, self.dates = name, imputes, texts, dates
        self.date_parts: dict[str, list[str]] = {}
        self.ngrams: dict[str, Ngrams] = {}
        self.names_in: list[str] | None = None
        self.columns: list[str] = []
        self.source: list[int] = []
        self.categories: dict[str, list[Any]] = {}
        self.is_categorical: list[bool] = []
        self.nearly_unique: dict[str, int] = {}
        self.gaps: list[str] = []
        self._names: list[str] = []
        self._kinds: list[Kind] = []

    def fit(self, X: Any) -> TableEncoder:
        """Learn the kinds of the columns and their categories."""
        table = read_table(X)
        auto, chosen = table.is_frame and isinstance(self.categorical, str), _positions(table, self.categorical)
        kinds = ["category" if i in chosen else kind_of(column, auto) for i, column in enumerate(table.columns)]
        names = table.names or [f"x{i}" for i in range(len(kinds))]
        columns, source, categories, self.ngrams, self.date_parts, self.gaps = [], [], {}, {}, {}, []
        for i, (name, kind) in enumerate(zip(names, kinds, strict=True)):
            encoded = [name]
            if kind == "category" and i not in chosen and self._holds_texts(name, table.columns[i]):
                self.ngrams[name] = Ngrams.learnt(_texts(table.columns[i]))
                encoded = self.ngrams[name].names(name)
            elif kind == "category":
                categories[name] = categories_of(table.columns[i])
                if self.encoding == "one-hot":
                    self.gaps += [name] * self._is_category(table.columns[i])
                    encoded = [f"{name}={value}" for value in [*categories[name], *[_GAP] * (name in self.gaps)]]
            elif kind == "date" and self.dates == "parts":
                self.date_parts[name] = parts_of(to_numbers(table.columns[i], kind))
                encoded += [f"{name} {wave}" for wave in wave_names(self.date_parts[name])]
            columns += encoded
            source += [i] * len(encoded)
        if twins := sorted(name for name, count in Counter(columns).items() if count > 1):
            raise InputError(
                f"X: more than one encoded column would be called {_listed(twins)}: rename columns or categories"
            )
        self.names_in, self.columns, self.source, self.categories = table.names, columns, source, categories
        self.is_categorical = [name in categories for name in names]
        self.nearly_unique = _nearly_unique(table, categories) if isinstance(self.categorical, str) else {}
        self._names, self._kinds = names, kinds
        return self

    def transform(self, X: Any) -> EncodedTable:
        """The numbers of ``X``, a new C-contiguous float64 array."""
        if not self._kinds:
            raise InputError("this TableEncoder is not fitted: call fit(X) first")
        table = self._aligned(read_table(X))
        values = np.empty((table.rows, len(self.columns)))
        start = 0
        for name, kind, column in zip(self._names, self._kinds, table.columns, strict=True):
            if name in self.ngrams:
                block = self.ngrams[name](_texts(column))
            else:
                block = self._categories(name, column) if kind == "category" else self._numbers(name, kind, column)
            values[:, start : start + block.shape[1]] = block
            start += block.shape[1]
        return self._checked(values, table)

    def encoded_names(self, column: Any) -> list[str]:
        """The encoded columns of an input column, given by name or number; an unknown name is returned as it is."""
        names = list(self._names)
        if isinstance(column, int):
            return [self.columns[j] for j, i in enumerate(self.source) if i == column % len(names)]
        return [self.columns[j] for j, i in enumerate(self.source) if names[i] == column] or [column]

    def fit_transform(self, X: Any) -> EncodedTable:
        """``fit(X).transform(X)``."""
        return self.fit(X).transform(X)

    def _is_category(self, column: Column) -> bool:
        """Whether a gap in a column of categories is a category."""
        return self.missing == "impute" and int((~is_present(column)).sum()) >= _ENOUGH_GAPS

    def _holds_texts(self, name: str, column: Column) -> bool:
        return is_text(column) if isinstance(self.texts, str) else name in self.texts

    def _numbers(self, name: str, kind: Kind, column: Column) -> Float64[np.ndarray, "n k"]:
        numbers = to_numbers(column, kind)
        return np.concatenate([numbers[:, None], waves(numbers, self.date_parts.get(name, ()))], 1)

    def _categories(self, name: str, column: Column) -> Float64[np.ndarray, "n k"]:
        one_hot, known = self.encoding == "one-hot", self.categories[name]
        remedy = "fit on data that include it"
        if self.name == "TableEncoder":
            remedy += ", or encode it as zeros with unknown='ignore'" if one_hot else ", or choose encoding='one-hot'"
        codes = to_codes(column, known, one_hot and self.unknown != "raise", remedy)[:, None]
        if not one_hot:
            return codes
        if name in self.gaps:
            codes = np.where(np.isnan(codes), len(known), codes)
        count = len(known) + (name in self.gaps)
        found = np.where(np.isnan(codes), np.nan, codes == np.arange(count))
        new = (codes < 0).ravel()
        if self.unknown != "new" or not new.any():
            return found
        found[new] = (1 - np.sqrt(1 + count)) / count
        _warn(
            f"X has the category {column.values[new.argmax()]!r} in column {column.label}, which was not in the "
            "training data: it counts as unlike all others, so predictions there are less certain"
        )
        return found

    @property
    def sizes(self) -> dict[int, int]:
        """The number of categories in each categorical column, keyed by the column's position."""
        known = (len(each) for each in self.categories.values())
        return {i: next(known) for i, categorical in enumerate(self.is_categorical) if categorical}

    def _checked(self, values: Float64[np.ndarray, "n d"], table: Table) -> EncodedTable:
        def refused(bad: Bool[np.ndarray, "n d"], what: str, then: str) -> RowError:
            row, column = np.argwhere(bad)[0]
            of = f", column {table.columns[self.source[column]].label}"
            return RowError(f"X has {what}, the first in row ", int(row), of + then)

        infinite = np.isinf(values)
        if infinite.any():
            raise refused(infinite, "infinite values", ": correct or remove them")
        missing = np.isnan(values)
        if not missing.any():
            return EncodedTable(values, None)
        if self.missing == "raise":
            remedy = "use missing='impute' or remove those rows" if self.imputes else "remove or fill those rows"
            count = f", in {int(missing.any(1).sum())} of {len(values)} rows: {remedy}"
            raise refused(missing, "missing values (NaN)", count)
        return EncodedTable(values, missing)

    def _aligned(self, table: Table) -> Table:
        """The table with the columns seen in ``fit``, in that order."""
        if self.names_in is not None and table.names is not None:
            refuse_other_names(self.names_in, table.names)
            by_name = dict(zip(table.names, table.columns, strict=True))
            return table._replace(columns=[by_name[name] for name in self.names_in], names=self.names_in)
        found, expected = len(table.columns), len(self._kinds)
        if found != expected:
            raise InputError(f"X has {found} features, but {self.name} is expecting {expected} features as input.")
        if self.names_in is not None:
            _warn(f"X does not have valid feature names, but {self.name} was fitted with feature names")
        elif table.names is not None:
            _warn(f"X has feature names, but {self.name} was fitted without feature names")
        return table


def needs_encoding(X: Any, categorical: Any = "auto") -> bool:
    """Whether ``X`` has anything but plain numbers: text, dates, categories, or columns declared as such.

    If not, scikit-learn's ``validate_data`` does all that is needed (missing numbers do not count). It also refuses
    objects that are neither text nor numbers.

    >>> needs_encoding([[1.0, 2.0]]), needs_encoding([[1.0, "red"]]), needs_encoding([[1, 2]], categorical=[0])
    (False, True, True)
    """
    if categorical is not None and len(categorical) and categorical != "auto":
        return True  # including invalid text, which the encoder refuses
    if is_frame(X):
        return not is_pandas(X) or not all(isinstance(each, np.dtype) and each.kind in "iufc" for each in X.dtypes)
    if sparse.issparse(X) or isinstance(X, Tensor):
        return False
    array = as_array(X)
    return array.dtype.kind in "USMm" or (array.dtype.kind == "O" and any(map(_is_text, array.ravel().tolist())))


def _is_text(value: Any) -> bool:
    return isinstance(value, (str, bytes))


def _texts(column: Column) -> list[str]:
    return ["" if is_missing(value) else str(value) for value in objects(column)]


def _nearly_unique(table: Table, categories: dict[str, list[Any]]) -> dict[str, int]:
    """Columns not declared categorical, with more than 50 values and more than half as many values as rows."""
    names = table.names or [f"x{i}" for i in range(len(table.columns))]
    declared = {name for name, column in zip(names, table.columns, strict=True) if column.declared is not None}
    sizes = {name: len(known) for name, known in categories.items() if name not in declared}
    return {name: size for name, size in sizes.items() if size > max(_MANY, table.rows / 2)}


def _positions(table: Table, categorical: Any) -> set[int]:
    """The positions of the columns that the user declares categorical."""
    if categorical is None or isinstance(categorical, str):
        return set()
    d, names = len(table.columns), table.names or []
    found = set()
    for column in categorical:
        if isinstance(column, str) and column in names:
            found.add(names.index(column))
        elif isinstance(column, (int, np.integer)) and not isinstance(column, bool) and -d <= column < d:
            found.add(int(column) % d)
        else:
            known = f"; its columns are {_listed(names)}" if names else f", whose {d} columns have no names"
            raise InputError(f"categorical has {column!r}, which is not a column of X{known}: give names or positions")
    return found


def refuse_other_names(expected: list[str], found: list[str]) -> None:
    """Raise an error that lists the columns that ``fit`` did not see and those now missing."""
    unseen, gone = sorted(set(found) - set(expected)), sorted(set(expected) - set(found))
    if unseen or gone:
        message = "X: The feature names should match those that were passed during fit.\n"
        message += f"Feature names unseen at fit time:\n{_bullets(unseen)}" if unseen else ""
        message += f"Feature names seen at fit time, yet now missing:\n{_bullets(gone)}" if gone else ""
        raise InputError(message + ("Drop the unseen ones." if not gone else "Add the missing ones."))


def _bullets(names: list[str]) -> str:
    return "".join(f"- {name}\n" for name in names[:_SHOWN]) + ("- …\n" if len(names) > _SHOWN else "")


def _listed(names: list[str]) -> str:
    return ", ".join(map(repr, names[:_SHOWN])) + (", …" if len(names) > _SHOWN else "")


def _warn(message: str) -> None:
    warnings.warn(message, UserWarning, stacklevel=4)
