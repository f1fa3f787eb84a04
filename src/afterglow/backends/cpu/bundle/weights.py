"""The weights of a bundle: shared by its programs, and checked by a sum."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Hashable

import numpy as np

from afterglow.backends.bundling.checksum import FIRST, FOLD, STEP, checksum
from afterglow.backends.cpu.codegen.constants import Constants
from afterglow.backends.cpu.llvm.emitter import Emitter, Module, Pointer, Value, differ
from afterglow.runtime.native.convention import ALIGNMENT
from afterglow.runtime.native.status import Status
from afterglow.types import Array
from afterglow.types.dtype import i32, u8, u64


class SharedConstants(Constants):
    """A block of constants for several programs, in which equal constants are shared."""

    def _place(self, key: Hashable, make: Callable[[], Array]) -> int:
        if key not in self._offsets:
            data = np.ascontiguousarray(make()).reshape(-1).view(np.uint8)
            content = data.nbytes, hashlib.sha256(data.data).digest()
            self._offsets[key] = super()._place(content, lambda: data)
        return self._offsets[key]


class Weights:
    """Where the functions of a bundle find its weights: given by the caller, or in the object."""

    def __init__(self, name: str, size: int, *, embedded: bool) -> None:
        self.symbol = f"{name}_weights"
        self.size = size
        self.embedded = embedded

    def parameter(self, e: Emitter) -> Pointer:
        """The next parameter of a function if there is one, else the weights themselves."""
        if not self.embedded:
            return e.pointer("weights", u8)
        return Pointer(e, u8, f"@{self.symbol}", 0, ALIGNMENT)

    def declare(self, module: Module) -> None:
        """Let the functions of a module use what another one defines."""
        if self.embedded:
            module.constant(self.symbol, f"[{self.size} x i8]", None)

    def define(self, module: Module, block: Array) -> None:
        """Put the weights into the object."""
        escaped = _ESCAPED[block].tobytes().decode()
        module.constant(self.symbol, f"[{self.size} x i8]", f'c"{escaped}"')


_ESCAPED = np.array([f"\\{byte:02X}".encode() for byte in range(256)])
"""How LLVM's text spells each byte."""


def write_check_weights(module: Module, name: str, block: Array) -> None:
    """`NAME_check_weights(weights, size)`: are these the bytes that the code was made with?"""
    with module.function(f"{name}_check_weights") as e:
        weights, size = e.pointer("weights", u8), e.count("size")
        wrong_size = differ(size, e.index(block.nbytes))
        status = e.branch(
            wrong_size,
            lambda: [e.constant(i32, Status.WEIGHTS_SIZE)],
            lambda: [_status_of_content(e, weights, block)],
        )
        e.return_(status[0])


def _status_of_content(e: Emitter, weights: Pointer, block: Array) -> Value:
    def checked() -> list[Value]:
        wrong = differ(_sum(e, weights, block.nbytes // 8), _signless(e, checksum(block)))
        return _either(e, wrong, Status.WEIGHTS_CONTENT)

    return e.branch(
        e.is_null(weights),
        lambda: [e.constant(i32, Status.NULL)],
        lambda: _aligned(e, weights, checked),
    )[0]


def _aligned(e: Emitter, weights: Pointer, then: Callable[[], list[Value]]) -> list[Value]:
    askew = differ(e.number_of(weights) & (ALIGNMENT - 1), e.index(0))
    return e.branch(askew, lambda: [e.constant(i32, Status.ALIGNMENT)], then)


def _either(e: Emitter, wrong: Value, status: Status) -> list[Value]:
    return e.branch(wrong, lambda: [e.constant(i32, status)], lambda: [e.constant(i32, Status.OK)])


def _sum(e: Emitter, weights: Pointer, words: int) -> Value:
    source = weights.cast(u64)

    def add(index: Value, state: list[Value]) -> list[Value]:
        total, factor = state
        word = source.load(index, align=8)
        return [total + (word ^ (word >> FOLD)) * factor, factor + _signless(e, STEP)]

    total, _ = e.fold(words, [_signless(e, 0), _signless(e, FIRST)], add)
    return total


def _signless(e: Emitter, number: int) -> Value:
    return e.constant(u64, number)
