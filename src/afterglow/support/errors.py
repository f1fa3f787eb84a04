"""Every error and warning a user can meet, and how it reads.

The first line says what is wrong (lower case, no period); then where, an excerpt of the program
around the fault, and what to do about it, if we know.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence

_PACKAGE = __name__.partition(".")[0]


class AfterglowError(Exception):
    """Base of all errors that Afterglow raises on purpose.

    `what` is the sentence; `where`, `excerpt` and `help` are added by whoever knows them.
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
    """An op's type rule is broken; the builder turns it into a `CompileError` that says where."""


class CompileError(AfterglowError):
    """A program cannot be built or compiled as it stands."""


class ParseError(AfterglowError):
    """A text is not a program."""


class VerifyError(AfterglowError):
    """A program breaks an invariant of its representation: a fault of a pass, or of a text."""


class ModelError(AfterglowError):
    """A model file is malformed."""


class MemoryLimitError(AfterglowError):
    """A model asks for more memory than it may take, or than there is."""


class UnsupportedError(AfterglowError):
    """A model is well formed but uses what Afterglow, or the chosen backend, does not have."""

    exit_status = 3


class InternalError(AfterglowError):
    """A fault of Afterglow itself; its cause is the exception that shows where."""

    exit_status = 70


class UsageError(AfterglowError):
    """The caller asked for something that makes no sense."""

    exit_status = 2


class AfterglowWarning(UserWarning):
    """Something that does not stop a model from running, and that its user should know."""


def warn(text: str) -> None:
    """Warn the user, at the line from which Afterglow was called."""
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and _is_ours(frame.f_globals.get("__name__", "")):
        level, frame = level + 1, frame.f_back
    warnings.warn(text, AfterglowWarning, stacklevel=level)


def _is_ours(module: str) -> bool:
    return module.partition(".")[0] == _PACKAGE


class IndexRangeError(AfterglowError):
    """Data hold an index, a length or a count that points outside of what there is."""

    @staticmethod
    def of(
        op: str, operand: str, value: int, allowed: tuple[int, int], node: str = ""
    ) -> IndexRangeError:
        """The error about one number; `node` is the model's own, if it is known."""
        low, high = allowed
        rule = f"must be from {low} to {high}" if low <= high else "must pick from something"
        nearest = "compile with unchecked=True to have the nearest taken, without an error"
        return IndexRangeError(
            f"{op}: {operand} {rule}, got {value}",
            where=f"in node {node!r}" if node else "",
            help=nearest if low <= high else "the axis has no elements",
        )

    def at_node(self, node: str) -> IndexRangeError:
        """The same error about the model's own node, if it does not name one yet."""
        where = self.where or (f"in node {node!r}" if node else "")
        return IndexRangeError(self.what, where=where, help=self.help)


_TOO_LARGE = ("array is too big", "Maximum allowed dimension exceeded", "Maximum allowed size")
"""How NumPy's errors begin about arrays of more bytes than an address can count."""


def lacks_memory(error: Exception) -> bool:
    """Whether an error says that memory for an array could not be had."""
    is_too_large = isinstance(error, ValueError) and str(error).startswith(_TOO_LARGE)
    return is_too_large or isinstance(error, MemoryError)


def out_of_memory(purpose: str, error: Exception) -> MemoryLimitError:
    """What to raise where memory for a purpose could not be had."""
    why = f": {error}" if str(error) else ""
    return MemoryLimitError(f"there is not enough memory to {purpose}{why}")
