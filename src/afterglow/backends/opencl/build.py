"""Compiling the text of kernels by the driver of a device, and keeping what came out."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from afterglow.backends.opencl.driver import context, library
from afterglow.backends.opencl.limits import Limits
from afterglow.support.errors import InternalError

_ROUNDED = "-cl-fp32-correctly-rounded-divide-sqrt"
_MOST_LINES = 20
"""Lines of what a driver says about a program that it refuses."""


def options_for(limits: Limits) -> list[str]:
    """What the driver is told."""
    return ["-cl-std=CL1.2", *([_ROUNDED] if limits.exact_division else [])]


def build(source: str, limits: Limits) -> Any:
    """A program that the driver compiled from text."""
    cl = library()
    program = cl.Program(context(limits.name)[0], source)
    try:
        with _quiet(cl):
            return program.build(options_for(limits), cache_dir=False)
    except cl.Error as error:
        said = "\n".join(str(error).splitlines()[:_MOST_LINES])
        raise InternalError(f"{limits.name} does not compile the kernels: {said}") from error


@contextmanager
def _quiet(cl: Any) -> Iterator[None]:
    """Without the warnings about drivers that say something while all is well."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cl.CompilerWarning)
        yield


def binary_of(program: Any) -> bytes:
    """What the driver made of a program, for the next process."""
    (binary,) = program.get_info(library().program_info.BINARIES)
    return bytes(binary)


def restore(binary: bytes, source: str, limits: Limits) -> Any:
    """The program that a binary is of; compiled anew if the driver does not take that."""
    cl = library()
    made, queue = context(limits.name)
    try:
        with _quiet(cl):
            return cl.Program(made, [queue.device], [binary]).build(options_for(limits))
    except cl.Error:
        return build(source, limits)
