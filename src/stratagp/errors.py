"""The exceptions and warnings that users see. Each message names what was wrong and what to do about it."""

from __future__ import annotations


class StrataGPError(Exception):
    """Base of every error that StrataGP raises on purpose.

    >>> issubclass(InputError, StrataGPError), issubclass(UnsupportedError, StrataGPError)
    (True, True)
    """


class InputError(StrataGPError, ValueError):
    """An argument or a data set that StrataGP cannot use as given.

    >>> from stratagp import kernels as k
    >>> k.RBF(lengthscale=-1.0)
    Traceback (most recent call last):
        ...
    stratagp.errors.InputError: lengthscale must be positive...
    """


class RowError(InputError):
    """An input error about one row of a table, counted from 0; :meth:`at` restates it for a row of another table.

    Arguments:
        before, row, after: the message: the row number and the text on either side of it.

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
        """The same error about a row of another table, with ``before`` in front of the message."""
        return RowError(before + self.before, row, self.after)


class NoAttributeError(InputError, AttributeError):
    """A learnt attribute that the estimator lacks for data of this kind; ``hasattr`` returns False.

    >>> issubclass(NoAttributeError, AttributeError)
    True
    """


class UnsupportedError(StrataGPError, TypeError):
    """A request that this object cannot answer, such as the derivative of a rough kernel.

    >>> import torch
    >>> from stratagp import kernels as k
    >>> k.gradient_gradient(k.Matern(0.5), torch.zeros(1, 1))
    Traceback (most recent call last):
        ...
    stratagp.errors.UnsupportedError: ...
    """


class NotPositiveDefiniteError(StrataGPError, ArithmeticError):
    """A covariance matrix that was still indefinite after all the jitter that the policy allows.

    >>> import torch
    >>> from stratagp.linalg import cholesky
    >>> cholesky(torch.tensor([[1.0, 2.0], [2.0, 1.0]], dtype=torch.float64))
    Traceback (most recent call last):
        ...
    stratagp.errors.NotPositiveDefiniteError: ...
    """


class ModelFileError(StrataGPError):
    """A saved model that is damaged, altered or of an unknown format.

    >>> issubclass(ModelFileError, StrataGPError)
    True
    """


class NumericalWarning(UserWarning):
    """StrataGP repaired a computation by a documented policy, such as jitter on a diagonal.

    >>> import warnings
    >>> warnings.simplefilter("ignore", NumericalWarning)  # if you do not want to hear of jitter
    """


class ConvergenceWarning(UserWarning):
    """An optimiser stopped before it converged.

    >>> import warnings
    >>> warnings.simplefilter("error", ConvergenceWarning)  # makes every fit that was cut short fail
    """
