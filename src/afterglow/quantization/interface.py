"""Inputs and outputs as integers: a caller sees the bytes, and is told what they stand for."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from afterglow.graph import Builder, Constant, Function, Node, Placeholder, Value
from afterglow.graph.function import Output
from afterglow.ops.activation import HardSigmoid, Sigmoid
from afterglow.ops.quantization import DequantizeLinear, QuantizeLinear
from afterglow.ops.softmax import Softmax
from afterglow.passes import Pass
from afterglow.support.errors import UsageError
from afterglow.types import DType, Quantization
from afterglow.types.dtype import f32

FROM_0_TO_1 = (Softmax, Sigmoid, HardSigmoid)
"""Ops whose results lie between 0 and 1, so that nothing has to be observed."""


def unit_range(dtype: DType) -> Quantization:
    """The integers of a type for the numbers from 0 to 1."""
    low, high = dtype.limits
    return Quantization((1 / (high - low),), (low,))


def is_between_0_and_1(value: Value) -> bool:
    """Whether the op that computes a value gives nothing else."""
    return value.producer is not None and isinstance(value.producer.op, FROM_0_TO_1)


def float_outputs(function: Function) -> list[Output]:
    """The outputs that nodes compute in f32: those that can be integers."""
    return [
        output
        for output in function.outputs
        if output.value.type.dtype is f32 and output.value.producer is not None
    ]


def interface_values(function: Function) -> list[Value]:
    """The f32 values of inputs and outputs whose ranges must be known to make integers of them."""
    inputs = (p for p in function.inputs if p.type.dtype is f32 and p.use_count)
    outputs = (o.value for o in float_outputs(function) if not is_between_0_and_1(o.value))
    return list(dict.fromkeys([*inputs, *outputs]))


def store_interface(
    function: Function, parameters: Mapping[Value, Quantization], dtype: DType
) -> None:
    """Inputs x, and outputs y  ->  dequantize(quantize(x, s, z), s, z), and the same of y.

    Inputs that are read by nothing but quantizations stay.
    """
    for value in interface_values(function):
        if value not in parameters:
            raise UsageError(
                f"the profile has no range of {_title(function, value)}",
                help="make the profile again, with this version of Afterglow",
            )
    for placeholder in [p for p in function.inputs if p in parameters]:
        readers = [(node, i) for node, i in placeholder.uses if _parameters(node) is None]
        real = _stored(function, placeholder, parameters[placeholder], dtype) if readers else None
        for node, index in readers:
            node.set_operand(index, real)
    for output in float_outputs(function):
        value = output.value
        known = parameters.get(value) or unit_range(dtype)
        output.value = _stored(function, value, known, dtype)


def _stored(function: Function, value: Value, chosen: Quantization, dtype: DType) -> Value:
    """dequantize(quantize(x, s, z), s, z)."""
    node = value.producer
    before = next(iter(function.nodes)) if node is None else node.after
    origins = () if node is None else node.origins
    b = Builder(function, before, name=f"{value.name}.stored", origins=origins)
    scale = b.constant(np.array(chosen.scales[0], np.float32), f"{value.name}.scale")
    zero = b.constant(np.array(chosen.offsets[0], dtype.numpy), f"{value.name}.zero")
    axis = max(0, value.type.rank - 1)
    stored = b.emit(QuantizeLinear(axis, dtype), value, scale, zero)
    return b.emit(DequantizeLinear(axis), stored, scale, zero)


def _title(function: Function, value: Value) -> str:
    names = [output.name for output in function.outputs if output.value is value]
    return f"output {names[0]!r}" if names else f"input {value.name!r}"


class QuantizeInterface(Pass):
    """Inputs that are quantized are given as integers, outputs that are dequantized as well.

    Both then have `quantization`, which says what the integers stand for. An f32 input that is
    read in another way is an error. Works on the main function.
    """

    name = "quantize-interface"

    def run(self, function: Function) -> bool:
        """See the class."""
        if function is not function.module.main:
            return False
        for placeholder in [p for p in function.inputs if p.type.dtype is f32]:
            _quantize_input(function, placeholder)
        for output in float_outputs(function):
            _quantize_output(output)
        return True


def _quantize_input(function: Function, placeholder: Placeholder) -> None:
    """quantize(input x, s, z)  ->  input x of integers."""
    found = dict.fromkeys(_parameters(node) for node in placeholder.users)
    if not found:
        return
    if None in found or len(found) > 1:
        raise UsageError(
            f"input {placeholder.name!r} cannot be integers: "
            f"{_reader(placeholder)} reads what was not quantized, or with another scale",
            help="leave quantized_io (--quantized-io) out",
        )
    nodes = placeholder.users
    stored = placeholder.users[0].result.type
    place = function.inputs.index(placeholder)
    new = Placeholder(placeholder.name, placeholder.type.with_dtype(stored.dtype), placeholder.kind)
    new.quantization = next(iter(found))
    function.inputs[place] = new
    for node in nodes:
        function.replace(node.result, new)
        function.erase(node)


def _quantize_output(output: Output) -> None:
    node = output.value.producer
    assert node is not None
    chosen = _parameters(node)
    if isinstance(node.op, DequantizeLinear) and chosen is not None:
        output.value, output.quantization = node.given[0], chosen


def _parameters(node: Node) -> Quantization | None:
    """The scale and zero point with which a node quantizes or dequantizes, if it does by one."""
    match node:
        case Node(
            QuantizeLinear(block_size=0) | DequantizeLinear(block_size=0),
            [_, Constant(scale), Constant(zero)],
        ) if scale.ndim == zero.ndim == 0:
            return Quantization((float(scale),), (int(zero),))
    return None


def _reader(placeholder: Placeholder) -> str:
    """The node that reads an input in floats, as the model calls it."""
    readers = [node for node in placeholder.users if _parameters(node) is None]
    node = (readers or placeholder.users)[0]
    return f"node {node.origin or node.name!r}"
