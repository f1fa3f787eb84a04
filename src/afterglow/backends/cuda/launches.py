"""The launches of a program: its kernels loaded, their arguments by name and offset."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from afterglow.backends.cuda.driver.protocol import NO_CODE, WARP, CudaError, Function
from afterglow.backends.cuda.session import Session
from afterglow.runtime.artifact import Section
from afterglow.support.errors import UsageError
from afterglow.support.lazy_dataclass import dataclass


@dataclass(frozen=True)
class Launch:
    """A kernel with its grid, and where its parameters lie: memories by name, and offsets."""

    function: Function
    grid: tuple[int, int, int]
    threads: int
    shared: int
    places: tuple[tuple[str, int], ...]
    pdl: bool
    """Whether it waits itself for the kernel in front of it."""


class LoadedKernels:
    """The kernels of a program in a context, given back when nobody has them any more."""

    def __init__(
        self, session: Session, kernels: Mapping[str, Any], sections: Mapping[str, Section]
    ) -> None:
        self.session = session
        self.functions: dict[str, Function] = {}
        for name, kernel in kernels.items():
            self.functions[name] = self._load(kernel, bytes(sections[kernel["section"]]))

    def _load(self, kernel: Mapping[str, Any], code: bytes) -> Function:
        session = self.session
        try:
            return session.context.load(code, kernel["symbol"], kernel["shared"])
        except CudaError as error:
            if error.name not in NO_CODE:
                raise session.failure("load a kernel", error, len(code)) from error
            raise UsageError(
                f"the driver cannot load the machine code of the model: {error}",
                help=f"compile it for --target sm_{session.facts.arch}, or install a newer driver",
            ) from error

    def __del__(self) -> None:
        if self.session.is_lost or sys.is_finalizing():
            return
        for function in self.functions.values():
            with suppress(CudaError):
                self.session.context.unload(function)


def launches_of(manifest: Mapping[str, Any], kernels: LoadedKernels) -> list[Launch | None]:
    """The launch of each part of a program; None if the host runs it."""
    described = manifest["kernels"]
    found: list[Launch | None] = []
    for part in manifest["parts"]:
        if "host" in part:
            found.append(None)
            continue
        kernel = described[part["kernel"]]
        x, y, z = part["grid"]
        places = tuple((name, offset) for name, offset in part["memory"])
        found.append(
            Launch(
                kernels.functions[part["kernel"]],
                (x, y, z),
                WARP * kernel["warps"],
                kernel["shared"],
                places,
                bool(part.get("pdl")),
            )
        )
    return found


def begin(
    session: Session,
    launches: Sequence[Launch],
    addresses: Mapping[str, int],
    stream: int,
    *,
    overlap: bool = True,
) -> None:
    """Launch kernels one after the other; with `overlap`, some begin before the last has ended.

    The first never does: what is in front of it is no kernel, or not known.
    """
    launch = session.context.launch
    for number, each in enumerate(launches):
        pointers = [addresses[name] + offset for name, offset in each.places]
        pdl = overlap and each.pdl and number > 0
        launch(each.function, each.grid, each.threads, each.shared, pointers, stream, pdl=pdl)
