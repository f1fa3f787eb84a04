"""What a device promises of its buffers, its runs and its errors."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from math import inf

import numpy as np
import pytest

from afterglow.graph import run_function
from afterglow.runtime import CompiledFunction
from afterglow.runtime.device import DeviceBuffer
from afterglow.support.errors import IndexRangeError
from afterglow.testing.arrays import assert_close, assert_identical
from afterglow.testing.base import Checks
from afterglow.testing.samples import COUNTER, LAYER, LOOKUP, module
from afterglow.types import Array, TensorType
from afterglow.types.dtype import boolean, f16, f32, f64, i8, i32, i64, u8

_TYPES = [TensorType(dtype, (2, 3)) for dtype in (f32, f64, f16, i8, u8, i32, i64, boolean)]
_RUNS = 24
_THREADS = 4
_PATIENCE = 60
"""Seconds after which a run in the background is taken to hang."""


class DeviceChecks(Checks):
    """The half of the contract that is about running: `Device`, `DeviceBuffer`, `Executable`."""

    def test_the_device_describes_itself(self) -> None:
        """Its name, its memory and its speed, in numbers that costs can be made of."""
        info = self.device.describe()
        assert info.name == self.device.name == self.factory.device
        assert info.description
        assert info.memory_bytes > 0
        assert 0 < info.bandwidth < inf
        assert 0 < info.flops < inf
        assert info.transfer_bandwidth > 0
        assert self.device.identity() == self.device.identity()

    @pytest.mark.parametrize(
        "type", [*_TYPES, TensorType(f32, ()), TensorType(f32, (0, 2))], ids=str
    )
    def test_buffers_keep_what_is_written(self, type: TensorType) -> None:
        """A new buffer holds zeros; what is read is what was written, and a copy."""
        buffer = self.device.allocate(type)
        assert buffer.type == type
        assert_identical([self._read(buffer)], [np.zeros(type.shape, type.dtype.numpy)])
        array = np.arange(type.size).reshape(type.shape).astype(type.dtype.numpy)
        buffer.write(array).result(_PATIENCE)
        copy = self._read(buffer)
        assert_identical([copy], [array])
        copy[...] = 0
        assert_identical([self._read(buffer)], [array])

    def test_a_run_on_buffers_gives_the_same_as_one_on_arrays(self) -> None:
        """`start` and `run` are two ways to do the same."""
        compiled = self._layer()
        outputs = self._started(compiled, [_x(1)])
        assert_identical(outputs, compiled.run([_x(1)]))
        assert_close(outputs, run_function(module(LAYER).main, [_x(1)]), self.tolerance)

    def test_several_runs_on_buffers_may_be_under_way(self) -> None:
        """Runs that were started before the first one ends do not disturb each other."""
        compiled = self._layer()
        ports = compiled.interface.outputs
        begun = []
        for number in range(_RUNS):
            outputs = [self.device.allocate(port.type) for port in ports]
            inputs = self._on_device([_x(number)])
            begun.append((outputs, compiled.executable.start(inputs, outputs, {})))
        for number, (outputs, future) in enumerate(begun):
            future.result(_PATIENCE)
            assert_identical([*map(self._read, outputs)], compiled.run([_x(number)]))

    def test_several_threads_may_run_it(self) -> None:
        """Runs of one executable by several threads at once do not disturb each other."""
        compiled = self._layer()
        wanted = [compiled.run([_x(number)]) for number in range(_RUNS)]
        with ThreadPoolExecutor(_THREADS) as pool:
            got = list(pool.map(lambda n: compiled.run([_x(n)]), range(_RUNS)))
        for have, want in zip(got, wanted, strict=True):
            assert_identical(have, want)

    def test_inputs_may_lie_in_memory_in_any_order(self) -> None:
        """An array that is transposed, or of which every other element is used, is an array."""
        compiled = self._layer()
        x = _x(1)
        wide = np.zeros((4, 6), np.float32)
        wide[::2, ::2] = x
        for array in (np.asfortranarray(x), wide[::2, ::2]):
            assert_identical(compiled.run([array]), compiled.run([x]))

    def test_states_last_from_run_to_run(self) -> None:
        """A state starts as zeros, and each run, on arrays or on buffers, goes on from the last."""
        compiled = self.compiled(module(COUNTER).main)
        ones = np.ones(4, np.float32)
        for total in (1, 2):
            assert_identical(compiled.run([ones]), [total * ones])
        assert_identical(self._started(compiled, [ones]), [3 * ones])
        (state,) = compiled.states.values()
        assert_identical([self._read(state)], [3 * ones])

    def test_a_copy_has_states_of_its_own(self) -> None:
        """A copy of a compiled function goes on from where the first was, and apart from it."""
        compiled = self.compiled(module(COUNTER).main)
        ones = np.ones(4, np.float32)
        compiled.run([ones])
        copied = deepcopy(compiled)
        assert_identical(copied.run([ones]), [2 * ones])
        assert_identical(copied.run([ones]), [3 * ones])
        assert_identical(compiled.run([ones]), [2 * ones])

    def test_the_error_of_a_run_comes_with_its_result(self) -> None:
        """`start` itself raises nothing, and after an error the executable runs as before."""
        compiled = self.compiled(module(LOOKUP).main)
        table = np.arange(10, dtype=np.float32).reshape(5, 2)
        wrong, right = np.array([0, 7, 1]), np.array([4, 0, 1])
        outputs = [self.device.allocate(port.type) for port in compiled.interface.outputs]
        future = compiled.executable.start(self._on_device([table, wrong]), outputs, {})
        assert isinstance(future.exception(_PATIENCE), IndexRangeError)
        with pytest.raises(IndexRangeError, match="must be from -5 to 4, got 7"):
            compiled.run([table, wrong])
        assert_identical(compiled.run([table, right]), [table[right]])

    def test_the_footprint_is_counted(self) -> None:
        """Bytes of weights, code and threads are numbers, and weights take at least their size."""
        footprint = self._layer().executable.footprint
        assert footprint.weight_bytes >= 0
        assert footprint.code_bytes >= 0
        assert footprint.thread_bytes >= 0

    def _layer(self) -> CompiledFunction:
        return self.compiled(module(LAYER).main)

    def _on_device(self, arrays: Sequence[Array]) -> list[DeviceBuffer]:
        buffers = [self.device.allocate(TensorType.of(array)) for array in arrays]
        for buffer, array in zip(buffers, arrays, strict=True):
            buffer.write(array).result(_PATIENCE)
        return buffers

    def _started(self, compiled: CompiledFunction, arrays: Sequence[Array]) -> list[Array]:
        outputs = [self.device.allocate(port.type) for port in compiled.interface.outputs]
        future = compiled.executable.start(self._on_device(arrays), outputs, compiled.states)
        future.result(_PATIENCE)
        return [self._read(buffer) for buffer in outputs]

    def _read(self, buffer: DeviceBuffer) -> Array:
        return buffer.read().result(_PATIENCE)


def _x(number: int) -> Array:
    return np.linspace(-2 - number, 3, 6, dtype=np.float32).reshape(2, 3)
