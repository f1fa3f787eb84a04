"""Compiling the text of kernels by the driver of a device, and keeping what came out."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from afterglow.backends.backend import KernelCache
from afterglow.backends.opencl.codegen import BINARY, SOURCE
from afterglow.backends.opencl.driver import library
from afterglow.backends.opencl.limits import Limits
from afterglow.backends.opencl.session import Session, status_of
from afterglow.runtime.artifact import Section
from afterglow.support.digest import digest_of_bytes, digest_of_texts
from afterglow.support.errors import InternalError

_ROUNDED = "-cl-fp32-correctly-rounded-divide-sqrt"
_SEAL_BYTES = 40
_REFUSALS = ("BUILD_PROGRAM_FAILURE", "INVALID_BUILD_OPTIONS", "COMPILE_PROGRAM_FAILURE")
"""Errors of drivers about a program; all others are about the device."""
_MOST_LINES = 20
"""Lines of what a driver says about a program that it refuses."""


def compile_kernels(source: str, on: Session, cache: KernelCache | None) -> bytes:
    """What the driver makes of kernels, from the cache if it has made that before."""
    key = digest_of_texts([on.limits.identity, *options_for(on.limits), source])
    found = None if cache is None else cache.get(key)
    if found is None:
        (binary,) = build(source, on).get_info(library().program_info.BINARIES)
        found = _seal(binary) + binary
        if cache is not None:
            cache.put(key, found)
    return found


def load_kernels(sections: Mapping[str, Section], compiled_for: Limits, on: Session) -> Any:
    """Kernels in a context: the binary, if this device and this driver made it, or the text."""
    source = bytes(sections[SOURCE]).decode()
    if BINARY in sections and compiled_for.identity == on.limits.identity:
        return restore(bytes(sections[BINARY]), source, on)
    return build(source, on)


def restore(binary: bytes, source: str, on: Session) -> Any:
    """The kernels that a binary is of; compiled anew if it is damaged, or the driver refuses it."""
    cl = library()
    seal, binary = binary[:_SEAL_BYTES], binary[_SEAL_BYTES:]
    if seal != _seal(binary):
        return build(source, on)
    try:
        with _quiet(cl):
            return cl.Program(on.context, [on.device], [binary]).build(options_for(on.limits))
    except (cl.Error, ValueError):
        return build(source, on)


def build(source: str, on: Session) -> Any:
    """Kernels that the driver compiled from text."""
    cl = library()
    with on.guarded("compile the kernels"), _quiet(cl):
        program = cl.Program(on.context, source)
        try:
            return program.build(options_for(on.limits), cache_dir=False)
        except cl.Error as error:
            if status_of(error) not in _REFUSALS:
                raise
            said = "\n".join(str(error).splitlines()[:_MOST_LINES])
            raise InternalError(f"{on.limits.name} does not compile the kernels: {said}") from error


def _seal(binary: bytes) -> bytes:
    """What stands before a binary: drivers may crash on one that is damaged."""
    return digest_of_bytes(binary).encode()


def options_for(limits: Limits) -> list[str]:
    """What the driver is told; the version of C that has dot products only where they are used."""
    version = "CL3.0" if limits.uses_dot else "CL1.2"
    return [f"-cl-std={version}", *([_ROUNDED] if limits.exact_division else [])]


@contextmanager
def _quiet(cl: Any) -> Iterator[None]:
    """Without the warnings about drivers that say something while all is well."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cl.CompilerWarning)
        yield
