"""The exceptions and warnings that users see. Each message names what was wrong and what to do about it."""

from __future__ import annotations


class StrataGPError(Exception):
    """Base of every error that StrataGP raises on purpose.

    >>> issubclass(InputError, StrataGPError), issubclass(UnsupportedError, StrataGPError)
    (True, True)
    """


class InputError(StrataGPError, ValueError):
    """An argument or a data set that cannot be used as given.

    >>> from stratagp import kernels as k
    >>> k.RBF(lengthscale=-1.0)
    Traceback (most recent call last):
        ...
    stratagp.errors.InputError: lengthscale must be positive...
    """


class RowError(InputError):
    """An input error about one row of a table, which it counts from 0; who has made the table of another can say where.

    Arguments:
        before, row, after: the message, in which the number stands between two texts.

    >>> error = RowError("X has no value in row ", 3, ", column 'age'")
    >>> print(error.at(1003, "b.parquet: "))
    b.parquet: X has no value in row 1003, column 'age'
    """

    def __init__(self, before: str, row: int, after: str) -> None:
        super().__init__(before, row, after)
        self.before, self.row, self.after = before, row, after

    def __str__(self) -> str:
        return f"{self.before}{self.row}{self.after}"

    def at(self, row: int, before: str = "") -> RowError:
        """The same about a row of another table, with words before it."""
        return RowError(before + self.before, row, self.after)


class NoAttributeError(InputError, AttributeError):
    """A learnt attribute that an estimator of such data does not have, so that ``hasattr`` says no.

    >>> issubclass(NoAttributeError, AttributeError)
    True
    """


class UnsupportedError(StrataGPError, TypeError):
    """A question that this object has no answer to, such as the derivative of a rough kernel.

    >>> import torch
    >>> from stratagp import kernels as k
    >>> k.gradient_gradient(k.Matern(0.5), torch.zeros(1, 1))
    Traceback (most recent call last):
        ...
    stratagp.errors.UnsupportedError: ...
    """


class NotPositiveDefiniteError(StrataGPError, ArithmeticError):
    """A covariance matrix that stayed indefinite after the jitter policy was exhausted.

    >>> import torch
    >>> from stratagp.linalg import cholesky
    >>> cholesky(torch.tensor([[1.0, 2.0], [2.0, 1.0]], dtype=torch.float64))
    Traceback (most recent call last):
        ...
    stratagp.errors.NotPositiveDefiniteError: ...
    """


class ModelFileError(StrataGPError):
    """A saved model that is damaged, altered or from an unknown format.

    >>> issubclass(ModelFileError, StrataGPError)
    True
    """


class NumericalWarning(UserWarning):
    """A computation was repaired by a stated policy, such as jitter on a diagonal.

    >>> import warnings
    >>> warnings.simplefilter("ignore", NumericalWarning)  # if you do not want to hear of jitter
    """


class ConvergenceWarning(UserWarning):
    """An optimiser stopped before it converged.

    >>> import warnings
    >>> warnings.simplefilter("error", ConvergenceWarning)  # makes every fit that was cut short fail
    """
