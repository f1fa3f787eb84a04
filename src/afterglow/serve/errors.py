"""Errors that answer a request: one kind, with the status it has in HTTP and in gRPC."""

from __future__ import annotations

from asyncio import CancelledError
from enum import Enum

from afterglow.support.errors import (
    AfterglowError,
    DeadlineError,
    EvaluationError,
    IndexRangeError,
    MemoryLimitError,
    QueueFullError,
    ShutdownError,
    UnsupportedError,
    UsageError,
)


class ErrorKind(Enum):
    """What is wrong with a request, as the status of HTTP and the code of gRPC."""

    INVALID = (400, "INVALID_ARGUMENT")
    UNAUTHENTICATED = (401, "UNAUTHENTICATED")
    NOT_FOUND = (404, "NOT_FOUND")
    WRONG_METHOD = (405, "UNIMPLEMENTED")
    TOO_LARGE = (413, "RESOURCE_EXHAUSTED")
    ENCODING = (415, "INVALID_ARGUMENT")
    BUSY = (429, "RESOURCE_EXHAUSTED")
    CANCELLED = (499, "CANCELLED")
    INTERNAL = (500, "INTERNAL")
    UNIMPLEMENTED = (501, "UNIMPLEMENTED")
    UNAVAILABLE = (503, "UNAVAILABLE")
    DEADLINE = (504, "DEADLINE_EXCEEDED")

    def __init__(self, status: int, code: str) -> None:
        self.status = status
        self.code = code


class RequestError(AfterglowError):
    """A request that is answered with an error."""

    def __init__(self, kind: ErrorKind, what: str, *, help: str = "") -> None:
        super().__init__(what, help=help)
        self.kind = kind

    @property
    def message(self) -> str:
        """What the client is told, in one line."""
        return f"{self.what}; {self.help}" if self.help else self.what


_KINDS: tuple[tuple[type[BaseException], ErrorKind], ...] = (
    (QueueFullError, ErrorKind.BUSY),
    (DeadlineError, ErrorKind.DEADLINE),
    (ShutdownError, ErrorKind.UNAVAILABLE),
    (CancelledError, ErrorKind.CANCELLED),
    (UsageError, ErrorKind.INVALID),
    (IndexRangeError, ErrorKind.INVALID),
    (EvaluationError, ErrorKind.INVALID),
    (UnsupportedError, ErrorKind.INVALID),
    (MemoryLimitError, ErrorKind.INVALID),
)
"""The kinds of errors that a run raises; any other is internal."""


def request_error(error: BaseException) -> RequestError:
    """The answer for an error; what is not meant for users is not told to them."""
    if isinstance(error, RequestError):
        return error
    found = (kind for type_, kind in _KINDS if isinstance(error, type_))
    kind = next(found, ErrorKind.INTERNAL)
    if isinstance(error, AfterglowError):
        return RequestError(kind, error.what, help=error.help)
    if kind is ErrorKind.CANCELLED:
        return RequestError(kind, "the request was cancelled")
    return RequestError(kind, "internal error", help="the log of the server says more")


def invalid(what: str, *, help: str = "") -> RequestError:
    """The error for a request that means nothing."""
    return RequestError(ErrorKind.INVALID, what, help=help)


def not_found(what: str, *, help: str = "") -> RequestError:
    """The error for something that the server does not have."""
    return RequestError(ErrorKind.NOT_FOUND, what, help=help)
