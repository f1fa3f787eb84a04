"""Packages that only the compiler needs, and the error for one that is not installed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from afterglow.support.errors import UsageError

COMPILER_PACKAGES = ("click", "llvmlite", "ml_dtypes", "onnx", "rich")
"""What the extra `compiler` installs besides NumPy, which suffices to run compiled models."""


@contextmanager
def needed_for(purpose: str) -> Iterator[None]:
    """Turn the import of a package that is not installed into an error that says what needs it."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise (missing_package(purpose, error) or error) from None


def missing_package(purpose: str, error: ModuleNotFoundError) -> UsageError | None:
    """The error for a missing package of the compiler; None if it is another one."""
    package = (error.name or "").partition(".")[0]
    if package not in COMPILER_PACKAGES:
        return None
    return UsageError(
        f"{purpose} needs the package {package}, which is not installed",
        help="pip install 'afterglow[compiler]'",
    )
