"""The exceptions of ONNX Runtime's interface, each of them also one of Afterglow's own.

ONNX Runtime raises a `ValueError` for an input that is missing; `InvalidArgument` is one as well.
"""

from __future__ import annotations

from afterglow.support.errors import (
    AfterglowError,
    CompileError,
    DeviceError,
    MemoryLimitError,
    ModelError,
    ParseError,
    UnsupportedError,
    UsageError,
)


class Fail(AfterglowError):
    """Something failed that no other exception describes."""


class InvalidArgument(UsageError, ValueError):
    """An argument, an input or an option is not what it must be."""


class NoSuchFile(UsageError):
    """The model's file cannot be read."""


class InvalidProtobuf(ModelError):
    """The model's file is malformed."""


class InvalidGraph(CompileError):
    """The model violates a rule of its ops."""


class NotImplemented(UnsupportedError):
    """The model or the program needs something that Afterglow does not have."""


class RuntimeException(AfterglowError):
    """A run failed, or there is not enough memory for it."""


class EPFail(DeviceError):
    """A device failed."""


_MEANINGS: tuple[tuple[type[AfterglowError], type[AfterglowError]], ...] = (
    (UsageError, InvalidArgument),
    (ModelError, InvalidProtobuf),
    (ParseError, InvalidProtobuf),
    (CompileError, InvalidGraph),
    (UnsupportedError, NotImplemented),
    (DeviceError, EPFail),
    (MemoryLimitError, RuntimeException),
)
"""What each of Afterglow's errors is called here; all others are `Fail`."""


def translated(error: AfterglowError) -> AfterglowError:
    """An error of Afterglow as the exception that a program for ONNX Runtime catches."""
    meaning = next((ours for theirs, ours in _MEANINGS if isinstance(error, theirs)), Fail)
    return meaning(error.what, where=error.where, excerpt=error.excerpt, help=error.help)
