"""The exceptions and warnings that users see. Each message names what was wrong and what to do about it."""


class StrataGPError(Exception):
    """Base of every error that StrataGP raises on purpose."""


class InputError(StrataGPError, ValueError):
    """An argument or a data set that cannot be used as given."""


class NoAttributeError(InputError, AttributeError):
    """A learnt attribute that an estimator of such data does not have, so that ``hasattr`` says no."""


class UnsupportedError(StrataGPError, TypeError):
    """A question that this object has no answer to, such as the derivative of a rough kernel."""


class NotPositiveDefiniteError(StrataGPError, ArithmeticError):
    """A covariance matrix that stayed indefinite after the jitter policy was exhausted."""


class ModelFileError(StrataGPError):
    """A saved model that is damaged, altered or from an unknown format."""


class NumericalWarning(UserWarning):
    """A computation was repaired by a stated policy, such as jitter on a diagonal."""


class ConvergenceWarning(UserWarning):
    """An optimiser stopped before it converged."""
