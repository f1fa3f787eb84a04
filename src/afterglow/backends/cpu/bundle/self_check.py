"""The self-check: stored numbers that the code must compute again, wherever it runs.

The inputs are not stored but made, by a function of the number of an element that is written twice:
here for NumPy, and for the machine.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate

import numpy as np

from afterglow.backends.cpu.bundle.weights import Weights
from afterglow.backends.cpu.llvm.emitter import (
    Emitter,
    FunctionSymbol,
    Module,
    Pointer,
    Value,
    absolute,
    convert,
    differ,
    equal,
    is_nan,
)
from afterglow.runtime.native.convention import ALIGNMENT
from afterglow.runtime.native.status import Status
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types import Array, Interface, Port, TensorType
from afterglow.types.dtype import DType, boolean, f32, f64, i32, i64, u8, u32

MOST_STORED = 256
"""Elements of an output that are stored, from its beginning."""

_SEED_STEP = 0x9E3779B9
_ROUNDS = ((16, 0x7FEB352D), (15, 0x846CA68B))
"""Shifts and factors of a hash of 32 bits."""
_LAST_SHIFT = 16
_TOLERANCES = {f64: 1e-3, f32: 1e-3}
_NARROW_TOLERANCE = 3e-2
_BYTE_TOLERANCE = 2.0
"""Quantized results may round the other way, and once more in what follows."""


def checked_extents(interface: Interface) -> dict[str, int]:
    """The extents of the self-check: two thirds of the way to the largest, so that tails matter."""
    return {
        dim.name: dim.low + (dim.high - dim.low) * 2 // (3 * dim.step) * dim.step
        for dim in interface.dims
    }


def made_inputs(interface: Interface) -> list[Array]:
    """The inputs of the self-check: floats from -1 to 1, and zeros and ones."""
    return [_made(port.type, number) for number, port in enumerate(interface.inputs)]


def _made(type: TensorType, number: int) -> Array:
    count = int(np.prod(type.shape, dtype=np.int64))
    bits = np.arange(count, dtype=np.uint32) + np.uint32(number * _SEED_STEP & 0xFFFFFFFF)
    for shift, factor in _ROUNDS:
        bits = (bits ^ (bits >> np.uint32(shift))) * np.uint32(factor)
    bits = bits ^ (bits >> np.uint32(_LAST_SHIFT))
    values: Array = bits >> np.uint32(31)
    if type.dtype.is_float:
        values = (bits >> np.uint32(8)).astype(np.float32) * np.float32(2**-23) - np.float32(1)
    return values.astype(type.dtype.numpy).reshape(type.shape)


@dataclass(frozen=True)
class SelfCheck:
    """Writes `NAME_self_check(arena, weights, memory)`, for outputs that are known."""

    module: Module
    prefix: str
    interface: Interface
    """What a run takes and gives with the extents of the check."""
    extents: Sequence[int]
    weights: Weights
    expected: Sequence[Array]

    @property
    def offsets(self) -> list[int]:
        """Where each port lies in the memory that the check is given; last, where it ends."""
        sizes = [-(-max(p.type.nbytes, 1) // ALIGNMENT) * ALIGNMENT for p in self.interface.ports]
        return list(accumulate(sizes, initial=0))

    def write(self, run: FunctionSymbol) -> None:
        """Fill the inputs, run, compare the outputs."""
        with self.module.function(f"{self.prefix}_self_check") as e:
            arena = e.pointer("arena", u8)
            weights, memory = self.weights.parameter(e), e.pointer("memory", u8)
            given = [arena] if self.weights.embedded else [arena, weights]
            if self.extents:
                given.append(self._stored_extents(e))
            io = e.scratch(e.index_type, max(len(self.interface.ports), 1), align=16)
            status = e.branch(
                e.is_null(memory),
                lambda: [e.constant(i32, Status.NULL)],
                lambda: self._checked(e, run, io, given, memory),
            )
            e.return_(status[0])

    def _stored_extents(self, e: Emitter) -> Pointer:
        stored = e.scratch(i64, len(self.extents), align=16)
        for place, extent in enumerate(self.extents):
            stored.store(e.constant(i64, extent), place)
        return stored

    def _checked(
        self, e: Emitter, run: FunctionSymbol, io: Pointer, given: list[Pointer], memory: Pointer
    ) -> list[Value]:
        askew = differ(e.number_of(memory) & (ALIGNMENT - 1), e.index(0))
        return e.branch(
            askew,
            lambda: [e.constant(i32, Status.ALIGNMENT)],
            lambda: self._run_and_compare(e, run, io, given, memory),
        )

    def _run_and_compare(
        self, e: Emitter, run: FunctionSymbol, io: Pointer, given: list[Pointer], memory: Pointer
    ) -> list[Value]:
        places = [memory + offset for offset in self.offsets]
        for number, place in enumerate(places[:-1]):
            e.store_pointer(io, number, place)
        for number, port in enumerate(self.interface.inputs):
            self._fill(e, port, places[number], number)
        first_state = len(self.interface.inputs) + len(self.interface.outputs)
        for number, port in enumerate(self.interface.states, first_state):
            e.zero(places[number], port.type.nbytes)
        status = e.call(run, io, *given, result=i32)
        ran = equal(status, e.constant(i32, Status.OK))
        ran = ran | equal(status, e.constant(i32, Status.INDEX))  # made inputs mean nothing
        return e.branch(ran, lambda: [self._compare_all(e, places)], lambda: [status])

    def _fill(self, e: Emitter, port: Port, place: Pointer, number: int) -> None:
        dtype = port.type.dtype
        count = port.type.nbytes // dtype.itemsize
        helper = self.module.helper(f"fill_{dtype}", _filler(dtype))
        seed = e.constant(u32, number * _SEED_STEP & 0xFFFFFFFF)
        e.run(helper, place, e.index(count), seed)

    def _compare_all(self, e: Emitter, places: Sequence[Pointer]) -> Value:
        wrong = e.constant(i32, 0)
        first = len(self.interface.inputs)
        ports = zip(self.interface.outputs, self.expected, places[first:], strict=False)
        for port, expected, place in ports:
            stored = np.ascontiguousarray(expected).reshape(-1)[:MOST_STORED]
            if not stored.size:
                continue
            dtype = port.type.dtype
            helper = self.module.helper(f"compare_{dtype}", _comparer(dtype))
            table = self.module.table(e, f"expected_{port.type.dtype}", stored)
            tolerance = e.constant(f32, _tolerance(dtype, stored))
            found = e.call(helper, place, table, e.index(stored.size), tolerance, result=i32)
            wrong = wrong | found
        return e.branch(
            equal(wrong, e.constant(i32, 0)),
            lambda: [e.constant(i32, Status.OK)],
            lambda: [e.constant(i32, Status.SELF_CHECK)],
        )[0]


def _filler(dtype: DType) -> Callable[[Emitter], None]:
    """Writes the function that fills memory with made numbers."""

    def write(e: Emitter) -> None:
        to, count, seed = e.pointer("to", dtype), e.count("count"), e.argument("seed", u32)
        with e.loop(count) as index:
            bits = convert(index, u32) + seed
            for shift, factor in _ROUNDS:
                bits = (bits ^ (bits >> shift)) * factor
            bits = bits ^ (bits >> _LAST_SHIFT)
            to.store(_as_element(bits, dtype), index)

    return write


def _as_element(bits: Value, dtype: DType) -> Value:
    if not dtype.is_float:
        one = bits >> 31
        return differ(one, one.like(0)) if dtype is boolean else convert(one, dtype)
    value = convert(convert(bits >> 8, i32), f32) * 2.0**-23 - 1.0
    return value if dtype is f32 else convert(value, dtype)


def _tolerance(dtype: DType, stored: Array) -> float:
    """How far a result may be off: of floats, relative to the largest that is stored."""
    if not dtype.is_float:
        return _BYTE_TOLERANCE if dtype.is_integer and dtype.bits <= 8 else 0.0
    finite = stored.astype(np.float64)[np.isfinite(stored.astype(np.float64))]
    largest = float(np.abs(finite).max(initial=0.0))
    return _TOLERANCES.get(dtype, _NARROW_TOLERANCE) * max(largest, 1e-6)


def _comparer(dtype: DType) -> Callable[[Emitter], None]:
    """Writes the function that says whether an element is too far from what is stored."""

    def write(e: Emitter) -> None:
        got, want = e.pointer("got", dtype), e.pointer("want", dtype)
        count, tolerance = e.count("count"), e.argument("tolerance", f32)

        def compare(index: Value, state: list[Value]) -> list[Value]:
            right = _is_right(got.load(index), want.load(index), dtype, tolerance)
            return [state[0] | convert(~right, i32)]

        e.return_(e.fold(count, [e.constant(i32, 0)], compare)[0])

    return write


def _is_right(got: Value, want: Value, dtype: DType, tolerance: Value) -> Value:
    if not dtype.is_float:
        if dtype.is_integer and dtype.bits <= 8:
            gap = convert(convert(got, i32) - convert(want, i32), f32)
            return absolute(gap) <= tolerance
        return equal(got, want)
    if dtype.is_narrow_float or dtype is f64:
        got, want = convert(got, f32), convert(want, f32)
    return equal(got, want) | (absolute(got - want) <= tolerance) | is_nan(want)
