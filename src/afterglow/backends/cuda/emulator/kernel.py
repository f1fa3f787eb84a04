"""Kernels that the processor runs, one program after the other."""

from __future__ import annotations

import threading
import traceback
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import triton.language as tl
from triton.runtime.interpreter import TensorHandle

from afterglow.backends.cuda.compile.worker import function_of
from afterglow.backends.cuda.emulator.builder import Builder
from afterglow.backends.cuda.emulator.language import Language
from afterglow.backends.cuda.emulator.memory import Memory

_ALIGNMENT = 16
_ELEMENTS = {
    "i1": tl.int1,
    "i8": tl.int8,
    "u8": tl.uint8,
    "i16": tl.int16,
    "u16": tl.uint16,
    "i32": tl.int32,
    "u32": tl.uint32,
    "i64": tl.int64,
    "u64": tl.uint64,
    "fp16": tl.float16,
    "bf16": tl.bfloat16,
    "fp32": tl.float32,
    "fp64": tl.float64,
    "fp8e4nv": tl.float8e4nv,
    "fp8e5": tl.float8e5,
}
"""The types that pointers point to, as signatures spell them."""


class KernelError(Exception):
    """A kernel that failed while it was interpreted."""


class Machine:
    """Interprets kernels on a memory; one at a time, whichever thread asks.

    A device runs the programs of a grid in any order: so does this, the same order each time.
    """

    lock = threading.RLock()
    """Held while the language of this process computes."""

    def __init__(self, memory: Memory) -> None:
        self._builder = Builder(memory)
        self._language = Language(self._builder)

    def load(
        self,
        name: str,
        text: str,
        types: Sequence[str],
        aligned: Sequence[bool] = (),
        warps: int = 4,
    ) -> EmulatedKernel:
        """A kernel of some text, with the types of its pointers."""
        jitted = function_of(name, text)
        variables = jitted.fn.__globals__
        for variable, value in list(variables.items()):
            if value is not jitted:
                variables[variable] = self._language.computing(value)
        function = self._language.rewrite(jitted)
        return EmulatedKernel(name, function, types, aligned, warps)

    def launch(
        self,
        kernel: EmulatedKernel,
        grid: tuple[int, int, int],
        addresses: Sequence[int],
        *,
        is_dependent: bool = False,
    ) -> None:
        """Run all programs of a grid. A dependent one may begin before the one ahead has ended."""
        pointers = kernel.pointers(addresses)
        with self.lock, self._language.active(), np.errstate(all="ignore"):
            self._builder.begin(grid, has_waited=not is_dependent)
            for place in _order(grid):
                self._builder.begin_program(place)
                try:
                    kernel.function(*pointers)
                except Exception as error:
                    where = kernel.line_of(error)
                    raise KernelError(f"kernel {kernel.name}: {_said(error)}{where}") from error
            if not self._builder.has_waited:
                raise KernelError(f"kernel {kernel.name}: no program waits for the kernel before")


class EmulatedKernel:
    """A kernel as a Python function."""

    def __init__(
        self,
        name: str,
        function: Callable[..., Any],
        types: Sequence[str],
        aligned: Sequence[bool],
        warps: int,
    ) -> None:
        self.name = name
        self.function = function
        self.warps = warps
        self._types = [tl.pointer_type(_ELEMENTS[type.removeprefix("*")]) for type in types]
        self._aligned = aligned or (False,) * len(types)

    def pointers(self, addresses: Sequence[int]) -> list[Any]:
        """The parameters of a launch."""
        if len(addresses) != len(self._types):
            wanted = len(self._types)
            raise KernelError(f"kernel {self.name} takes {wanted} pointers, got {len(addresses)}")
        for index, address in enumerate(addresses):
            if self._aligned[index] and address % _ALIGNMENT:
                raise KernelError(f"kernel {self.name}: p{index} is no multiple of {_ALIGNMENT}")
        return [
            tl.tensor(TensorHandle(np.array([address], np.uint64), type), type)
            for address, type in zip(addresses, self._types, strict=True)
        ]

    def line_of(self, error: Exception) -> str:
        """The line of its text where an error was raised, for messages."""
        file = self.function.__code__.co_filename
        frames = traceback.extract_tb(error.__traceback__)
        lines = [frame.line for frame in frames if frame.filename == file and frame.line]
        return f", in: {lines[-1]}" if lines else ""


def _order(grid: tuple[int, int, int]) -> list[tuple[int, int, int]]:
    """The places of programs, in the order in which they run."""
    x, y, z = grid
    numbers = np.random.default_rng(0).permutation(x * y * z).tolist()
    return [(number % x, number // x % y, number // (x * y)) for number in numbers]


def _said(error: Exception) -> str:
    """What an error says, with its kind unless it is ours."""
    kind = type(error)
    name = "" if kind.__module__.startswith("afterglow.") else f"{kind.__name__}: "
    return f"{name}{error}"
