"""The errors and warnings that users see, and their format.

The first line says what is wrong (lower case, no period); then where, an excerpt of the program
around the fault, and what to do about it, if known.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence

_PACKAGE = __name__.partition(".")[0]

FAULTS = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    RecursionError,
    StopIteration,
    TypeError,
    ValueError,
)
"""What programming errors raise; anything else may come from a signal handler of the caller."""


class AfterglowError(Exception):
    """Base of all errors that Afterglow raises on purpose.

    `what` is the message; `where`, `excerpt` and `help` may be added later by a caller.
    """

    exit_status = 1

    def __init__(
        self, what: str, *, where: str = "", excerpt: Sequence[str] = (), help: str = ""
    ) -> None:
        super().__init__(what)
        self.what = what
        self.where = where
        self.excerpt = tuple(excerpt)
        self.help = help

    def __str__(self) -> str:
        lines = [f"error: {self.what}"]
        if self.where:
            lines.append(f"  {self.where}")
        lines.extend(f"    {line}" for line in self.excerpt)
        if self.help:
            lines.append(f"  help: {self.help}")
        return "\n".join(lines)


class TypeRuleError(AfterglowError):
    """An op's type rule is violated; the builder converts it to a `CompileError` with location."""


class CompileError(AfterglowError):
    """A program cannot be built or compiled."""


class ParseError(AfterglowError):
    """A text is not a valid program."""


class VerifyError(AfterglowError):
    """A program violates an invariant of its IR: a bug in a pass, or an invalid text."""


class ModelError(AfterglowError):
    """A model file is malformed."""


class MemoryLimitError(AfterglowError):
    """A model needs more memory than the limit, or than there is."""


class DeviceError(AfterglowError):
    """A device failed while it ran a program: another one, or a later run, may succeed."""


class UnsupportedError(AfterglowError):
    """A model is valid, but uses something that Afterglow or the backend does not support."""

    exit_status = 3


class InternalError(AfterglowError):
    """A bug in Afterglow itself; `__cause__` is the original exception."""

    exit_status = 70


class QueueFullError(AfterglowError):
    """As many requests as may wait are waiting already: this one is refused."""


class DeadlineError(AfterglowError):
    """The deadline of a request passed before it began to run."""


class ShutdownError(AfterglowError):
    """A request was not finished when what was to run it was shut down."""


class UsageError(AfterglowError):
    """Invalid arguments or options."""

    exit_status = 2


class TrainingError(AfterglowError):
    """A training run cannot go on: what it computes is no number any more."""


class EvaluationError(AfterglowError):
    """An op of a user's own failed, or did not return what its type rule says."""

    def at_node(self, node: str) -> EvaluationError:
        """The same error, about a node of the model."""
        self.where = self.where or (f"in node {node!r}" if node else "")
        return self


class AfterglowWarning(UserWarning):
    """A problem that does not stop a model from running."""


def warn(text: str) -> None:
    """Warn the user, at the line from which Afterglow was called."""
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and _is_ours(frame.f_globals.get("__name__", "")):
        level, frame = level + 1, frame.f_back
    warnings.warn(text, AfterglowWarning, stacklevel=level)


def _is_ours(module: str) -> bool:
    return module.partition(".")[0] == _PACKAGE


class IndexRangeError(AfterglowError):
    """An index, length or count in the data is out of range."""

    @staticmethod
    def of(
        op: str, operand: str, value: int, allowed: tuple[int, int], node: str = ""
    ) -> IndexRangeError:
        """The error for one value; `node` is the name of the model's node, if known."""
        low, high = allowed
        rule = (
            f"must be from {low} to {high}" if low <= high else "must refer to an existing element"
        )
        nearest = "compile with unchecked=True to use the nearest valid index instead"
        return IndexRangeError(
            f"{op}: {operand} {rule}, got {value}",
            where=f"in node {node!r}" if node else "",
            help=nearest if low <= high else "the axis has no elements",
        )

    def at_node(self, node: str) -> IndexRangeError:
        """The same error with the name of the model's node, if it has none yet."""
        where = self.where or (f"in node {node!r}" if node else "")
        return IndexRangeError(self.what, where=where, help=self.help)


_TOO_LARGE = ("array is too big", "Maximum allowed dimension exceeded", "Maximum allowed size")
"""Beginnings of NumPy's error messages for arrays that exceed the address space."""


def lacks_memory(error: Exception) -> bool:
    """Whether an error means that memory for an array could not be allocated."""
    is_too_large = isinstance(error, ValueError) and str(error).startswith(_TOO_LARGE)
    return is_too_large or isinstance(error, MemoryError)


def out_of_memory(purpose: str, error: Exception) -> MemoryLimitError:
    """The error to raise if memory for a purpose could not be allocated."""
    why = f": {error}" if str(error) else ""
    return MemoryLimitError(f"not enough memory to {purpose}{why}")
