"""Inputs and outputs that are bound to memory before a run."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from afterglow.onnxruntime.elements import element_type_of
from afterglow.onnxruntime.errors import InvalidArgument
from afterglow.onnxruntime.values import OrtValue, check_on_cpu
from afterglow.types import Array


class IOBinding:
    """The memory that inputs are read from and outputs written to, by their names.

    It is the same for any session.
    """

    def __init__(self, session: object = None) -> None:
        self.inputs: dict[str, Any] = {}
        """What is bound to inputs."""
        self.outputs: dict[str, Array | None] = {}
        """What is bound to outputs; None for one that a run allocates."""
        self.results: list[Any] = []
        """The outputs of the last run, in the order in which they were bound."""

    def bind_cpu_input(self, name: str, arr_on_cpu: Array) -> None:
        """Bind an input to an array."""
        self.inputs[name] = arr_on_cpu

    def bind_input(
        self,
        name: str,
        device_type: str,
        device_id: int,
        element_type: Any,
        shape: Sequence[int],
        buffer_ptr: int,
    ) -> None:
        """Bind an input to memory at an address, which must live until the run is over."""
        check_on_cpu(device_type)
        self.inputs[name] = _memory(element_type, shape, buffer_ptr)

    def bind_ortvalue_input(self, name: str, ortvalue: OrtValue) -> None:
        """Bind an input to a value."""
        self.inputs[name] = ortvalue.numpy()

    def bind_output(
        self,
        name: str,
        device_type: str = "cpu",
        device_id: int = 0,
        element_type: Any = None,
        shape: Sequence[int] | None = None,
        buffer_ptr: int | None = None,
    ) -> None:
        """Bind an output to memory at an address; without one, each run allocates it."""
        check_on_cpu(device_type)
        if buffer_ptr is None:
            self.outputs[name] = None
        elif element_type is None or shape is None:
            raise InvalidArgument(
                f"output {name!r} is bound to an address without an element type and a shape",
                help="give element_type and shape with buffer_ptr",
            )
        else:
            self.outputs[name] = _memory(element_type, shape, buffer_ptr)

    def bind_ortvalue_output(self, name: str, ortvalue: OrtValue) -> None:
        """Bind an output to the memory of a value."""
        self.outputs[name] = ortvalue.numpy()

    def synchronize_inputs(self) -> None:
        """Wait until inputs are on their device: they always are."""

    def synchronize_outputs(self) -> None:
        """Wait until outputs are there: they are once a run has returned."""

    def get_outputs(self) -> list[OrtValue]:
        """The outputs of the last run, in the order in which they were bound."""
        return [OrtValue(result) for result in self.results]

    def copy_outputs_to_cpu(self) -> list[Any]:
        """The same as arrays, in memory of their own."""
        return [
            result.copy() if isinstance(result, np.ndarray) else result for result in self.results
        ]

    def clear_binding_inputs(self) -> None:
        """Forget what inputs are bound to."""
        self.inputs.clear()

    def clear_binding_outputs(self) -> None:
        """Forget what outputs are bound to."""
        self.outputs.clear()


def _memory(element_type: Any, shape: Sequence[int], address: int) -> Array:
    """The memory at an address as an array."""
    dtype, size = element_type_of(element_type).numpy, prod(shape)
    if dtype.hasobject:
        raise InvalidArgument("strings cannot be bound by an address", help="bind an OrtValue")
    if not size:
        return np.empty(tuple(shape), dtype)
    memory: Any = (ctypes.c_char * (size * dtype.itemsize)).from_address(address)
    array: Array = np.frombuffer(memory, dtype).reshape(tuple(shape))
    return array
