"""Exceptions and warnings of the package.

Bad arguments raise :class:`ValueError` or :class:`TypeError`, as in torch. The classes below are for conditions that a
caller may want to handle by name.
"""


class SoftUCBError(Exception):
    """Base class of the exceptions that this package defines."""


class NumericalError(SoftUCBError, ArithmeticError):
    """A computed quantity is NaN, infinite or inconsistent. Nothing is repaired silently."""


class DataError(SoftUCBError, ValueError):
    """A data file is missing, or its contents are not what the reader expects."""


class JournalError(SoftUCBError, ValueError):
    """A journal cannot be opened, written or read as expected."""


class OpenDecisionsError(SoftUCBError, RuntimeError):
    """A head has as many decisions without feedback as it may have."""


class CompileWarning(UserWarning):
    """The requested backend is not available; the rounds run on another backend, with the same results."""


class BetaWarning(UserWarning):
    """The learned beta exceeds its theoretical upper bound."""


class LogWarning(UserWarning):
    """The end of a decision log was incomplete: what a commit that never returned had written was left out."""


class UniformWarning(UserWarning):
    """A policy's decisions stay uniform over the candidates: it explores and never uses what it has learned."""
