"""Kernels whose arguments are set once: launching one is a single call of the driver."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from afterglow.backends.opencl.driver import library


class BoundKernels:
    """The launches of a program for one workspace; memories are bound to it by name."""

    def __init__(self, compiled: Any, parts: Sequence[Mapping[str, Any]]) -> None:
        self.memories: dict[str, Any] = {}
        self.launches: list[tuple[Any, tuple[int, ...], tuple[int, ...]] | None] = []
        """Of each part the kernel, its items, and those of a group; None if the host runs it."""
        self._uses: dict[str, list[tuple[Any, int]]] = {}
        for part in parts:
            self.launches.append(self._launch(compiled, part) if "kernel" in part else None)

    def bind(self, name: str, memory: Any) -> None:
        """Have kernels use some memory under a name; nothing to do if they do so already."""
        if self.memories.get(name) is memory:
            return
        self.memories[name] = memory
        for kernel, argument in self._uses.get(name, ()):
            kernel.set_arg(argument, memory)

    def _launch(self, compiled: Any, part: Mapping[str, Any]) -> Any:
        kernel = library().Kernel(compiled, part["kernel"])
        for number, (name, offset) in enumerate(part["memory"]):
            self._uses.setdefault(name, []).append((kernel, 2 * number))
            kernel.set_arg(2 * number + 1, np.uint64(offset))
        return kernel, tuple(part["items"]), tuple(part["group"])
