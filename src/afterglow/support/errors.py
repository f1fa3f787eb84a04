"""Every error a user can meet, and how it reads.

The first line says what is wrong (lower case, no period); then where, an excerpt of the program
around the fault, and what to do about it, if we know.
"""

from __future__ import annotations

from collections.abc import Sequence


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


class UnsupportedError(AfterglowError):
    """A model is well formed but uses what Afterglow, or the chosen backend, does not have."""

    exit_status = 3


class InternalError(AfterglowError):
    """A fault of Afterglow itself; its cause is the exception that shows where."""

    exit_status = 70


class UsageError(AfterglowError):
    """The caller asked for something that makes no sense."""

    exit_status = 2
