"""Tables as inputs of an estimator: encoded, filled and scaled as the training rows were."""

from __future__ import annotations

import os
import warnings
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from sklearn.base import BaseEstimator
from sklearn.utils.validation import validate_data
from torch import Tensor

from stratagp.data import GaussianImputer, Source, TableEncoder, needs_encoding
from stratagp.data.tables import as_array
from stratagp.errors import InputError
from stratagp.estimators.inputs.base import InputOptions, Inputs, Points, RowsLike, forget_columns
from stratagp.estimators.inputs.objects import refuse_texts
from stratagp.kernels import RBF, Kernel, OnColumns, Product
from stratagp.parameters import positive
from stratagp.recipes.base import given_kernel
from stratagp.training.start import spreads

N_DRAWS = 16  # of missing entries, over which predictions are averaged


class TableInputs(Inputs):
    """Arrays and data frames: categories encoded, missing entries filled, columns scaled."""

    def __init__(self, options: InputOptions) -> None:
        self.options = options
        self.encoder: TableEncoder | None = None
        self.imputer: GaussianImputer | None = None
        self.centre: Tensor | None = None
        self.scale: Tensor | None = None
        self.columns = []
        self.source = []

    def learn(self, estimator: BaseEstimator, X: RowsLike) -> Points:
        """Learn from the training rows, and return them as points."""
        options = self.options
        forget_columns(estimator)
        refuse_texts(X, options.texts)
        if needs_encoding(X, options.categorical):
            self.encoder = TableEncoder(
                options.categorical,
                options.encoding,
                options.missing,
                unknown="raise" if options.encoding == "codes" else "new",
                name=options.name,
                imputes=options.can_impute,
                texts=options.ngrams,
                dates=options.dates if options.encoding == "one-hot" else "days",  # codes are known by their place
            ).fit(X)
            warn_of_texts(self.encoder, options.view_kernels)
            estimator.n_features_in_ = len(self.encoder.is_categorical)
            if self.encoder.names_in is not None:
                estimator.feature_names_in_ = np.asarray(self.encoder.names_in, dtype=object)
        values, missing = self._read(estimator, X, reset=True)
        self.columns = self._names(estimator, values.shape[1])
        self.source = list(range(values.shape[1])) if self.encoder is None else list(self.encoder.source)
        if missing is not None:
            self.imputer = GaussianImputer().fit(values, missing, self.columns)
        points = self._fill(values, missing)
        if not options.scale:
            return points
        self.centre, self.scale = points.values.mean(0), spreads(points.values)
        if self.encoder is not None and self.code_sizes is not None:
            codes = torch.tensor(self.encoder.is_categorical)
            self.centre, self.scale = self.centre.masked_fill(codes, 0.0), self.scale.masked_fill(codes, 1.0)
        return self._fill(values, missing)

    def points(self, estimator: BaseEstimator, X: RowsLike) -> Points:
        """New rows as points, the way the training rows were."""
        _refuse_files(X, "predict_file(X, out) predicts files, all else takes rows in memory")
        values, missing = self._read(estimator, X, reset=False)
        return self._fill(values, missing)

    def bind(self, kernel: Kernel | None, default: Kernel) -> Kernel:
        """A copy of a kernel (or of a default one) that knows its columns and categories."""
        own = given_kernel(kernel, default)
        if self.encoder is not None:
            own = default_kernel(self.encoder, own) if kernel is None else own
            name_categories(own, self.encoder)
        return own.bind(self.columns)

    def _read(self, estimator: BaseEstimator, X: RowsLike, reset: bool) -> tuple[np.ndarray, np.ndarray | None]:
        if self.encoder is not None:
            values, missing = self.encoder.transform(X)
            complete = self.options.missing == "impute" and missing is None
            return values, np.zeros(values.shape, dtype=bool) if complete else missing
        finite: Any = "allow-nan" if self.options.missing == "impute" else True
        X = as_array(X) if isinstance(X, Tensor) else X
        try:
            values = validate_data(estimator, X, reset=reset, dtype=np.float64, ensure_all_finite=finite, copy=True)
        except ValueError as error:
            if "contains NaN" not in str(error) and "contains infinity" not in str(error):
                raise
            first = str(error).splitlines()[0].rstrip(".")
            fill = ", or let missing='impute' fill them" if self.options.can_impute else " or fill them"
            raise InputError(f"{first}: drop those rows{fill if 'NaN' in first else ''}") from None
        missing = np.isnan(values) if self.options.missing == "impute" else None
        return values, missing

    def _names(self, estimator: BaseEstimator, count: int) -> list[str]:
        if self.encoder is not None:
            return list(self.encoder.columns)
        names = vars(estimator).get("feature_names_in_")
        return [f"x{i}" for i in range(count)] if names is None else [str(name) for name in names]

    def _fill(self, values: np.ndarray, missing: np.ndarray | None) -> Points:
        if missing is None or not missing.any():
            return Points(self._scaled(values))
        assert self.imputer is not None
        return Points(self._scaled(self.imputer.impute(values, missing).mean), np.asarray(missing.any(1)), values)

    def draws(self, points: Points, joint: bool = False) -> Float[Tensor, "s r d"]:
        """The incomplete rows, their missing entries drawn at random given the others.

        Unless rows are asked about jointly, all use the same random numbers: an answer about one does not depend on
        what other rows are asked about with it.
        """
        assert self.imputer is not None
        assert points.raw is not None
        rows = points.raw[points.incomplete]
        found = self.imputer.impute(rows, np.isnan(rows), n_draws=N_DRAWS, seed=self.options.seed, shared=not joint)
        assert found.draws is not None
        return self._scaled(found.draws)

    def _scaled(self, values: np.ndarray) -> Float[Tensor, "*s n d"]:
        points = torch.from_numpy(np.ascontiguousarray(values))
        return points if self.centre is None or self.scale is None else (points - self.centre) / self.scale


def _refuse_files(X: RowsLike, remedy: str) -> None:
    """Refuse a path or a source where the rows themselves are meant."""
    if isinstance(X, (Source, str, os.PathLike)):
        raise InputError(f"X must be an array or a data frame, got {type(X).__name__}: {remedy}")


def default_kernel(encoder: TableEncoder, of_numbers: Kernel) -> Kernel:
    """A kernel of the columns of numbers, times a similarity of the values of each category.

    A category has one lengthscale for all its indicator columns: two of its values are alike, or they are not.
    """
    names = encoder.names_in or [f"x{i}" for i in range(len(encoder.is_categorical))]
    numbers = [name for name, category in zip(names, encoder.is_categorical, strict=True) if not category]
    categories = [name for name, category in zip(names, encoder.is_categorical, strict=True) if category]
    factors = [of_numbers.on(numbers)] if numbers else []
    factors += [
        RBF(variance=positive(1.0, trainable=bool(not factors and not i))).on(c) for i, c in enumerate(categories)
    ]
    return factors[0] if len(factors) == 1 else Product(*factors)


def name_categories(kernel: Kernel, encoder: TableEncoder) -> None:
    """Let ``.on("city")`` mean the columns ``city=Rome``, ``city=Oslo``, … that the category was encoded as."""
    for part in kernel.modules():
        if isinstance(part, OnColumns) and isinstance(part.columns, (str, list, tuple)):
            wanted = [part.columns] if isinstance(part.columns, str) else part.columns
            part.columns = [name for column in wanted for name in encoder.encoded_names(column)]


def warn_of_texts(encoder: TableEncoder, able: bool) -> None:
    """Warn where a column of text, almost all of whose values differ, is taken for a category."""
    for name, count in encoder.nearly_unique.items():
        remedy = f"view_kernels={{{name!r}: kernels.Spectrum(3)}} compares texts, or drop it" if able else "drop it"
        warnings.warn(
            f"X: column {name!r} is taken for a category, but most of its {count} different values occur in one row "
            f"alone, which says nothing about other rows: {remedy}; categorical=[{name!r}] if it is one",
            UserWarning,
            stacklevel=5,
        )
