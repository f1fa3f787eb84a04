"""Simulation of quantized layers in floats: each one is switched on or off from run to run.

One program serves to measure all layers: a run with one layer switched on tells what that layer
alone costs, and no program has to be compiled for each.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from afterglow.graph import Builder, Constant, Function, Node, Value
from afterglow.ops.convolution import Conv
from afterglow.ops.elementwise import Add, Mul, Sub, Where
from afterglow.ops.movement import Concat, Reshape, Slice
from afterglow.ops.quantization import DequantizeLinear, QuantizeLinear
from afterglow.ops.reduction import ReduceSum
from afterglow.quantization.points import is_anchor
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types import Array, DType, Quantization, TensorType
from afterglow.types.dtype import boolean
from afterglow.types.extent import is_ranged

SWITCHES = "\0layers in integers"
"""The input that says for each layer whether it is simulated."""
POWERS = "\0powers"
"""The output with the power of each layer's result, and then of each one's error."""
SAMPLED = 1 << 16
"""Elements of a value that a probe returns, about."""


@dataclass(frozen=True)
class Layer:
    """A layer that computes in integers, and how what it reads and its weight are stored."""

    name: str
    origin: str
    """The node of the model that it comes from."""
    bias_origin: str
    """The node of the model that adds its bias, if that is another one."""
    op: str
    point: str
    """The value that it reads, by name."""
    parameters: Quantization
    """The scale and zero point of what it reads."""
    dtype: DType
    """The type of these integers."""
    weight_bytes: int
    stored_bytes: int
    """Bytes of the weight as integers, and of its scales."""


@dataclass(frozen=True)
class _Converted:
    """A layer of a converted function: what a simulation of it needs."""

    quantize: Node
    weight: Node
    bias: Array | None

    @staticmethod
    def of(anchor: Node) -> _Converted | None:
        """What an anchor of a converted function reads; None if that are no integers."""
        x, weight, *_ = anchor.given
        match x:
            case Value(Node(DequantizeLinear(), [Value(Node(QuantizeLinear()) as quantize), *_])):
                pass
            case _:
                return None
        if weight.producer is None:
            return None
        return _Converted(quantize, weight.producer, _bias_of(anchor))

    @property
    def parameters(self) -> Quantization:
        scale, zero = map(_data, self.quantize.operands[1:3])
        return Quantization((float(scale),), (int(zero),))

    @property
    def stored_bytes(self) -> int:
        return sum(operand.type.nbytes for operand in self.weight.given)


def converted_layers(function: Function, converted: Function) -> dict[Node, Layer]:
    """The layers of a function that are of integers in a copy of it that was converted."""
    pairs = _pairs(function, converted)
    return {anchor: _described(anchor, other) for anchor, other in pairs.items()}


def _pairs(function: Function, converted: Function) -> dict[Node, _Converted]:
    by_name = {node.name: node for node in converted.nodes}
    found = {}
    for anchor in filter(is_anchor, function.nodes):
        other = _Converted.of(by_name[anchor.name]) if anchor.name in by_name else None
        if other is not None:
            found[anchor] = other
    return found


def _described(anchor: Node, other: _Converted) -> Layer:
    x, weight, *_ = anchor.given
    return Layer(
        anchor.name,
        anchor.origin,
        _bias_origin(anchor),
        anchor.op.mnemonic,
        x.name,
        other.parameters,
        other.quantize.results[0].type.dtype,
        weight.type.nbytes,
        other.stored_bytes,
    )


def add_simulation(function: Function, converted: Function) -> list[Layer]:
    """Add to a function what its converted copy computes: an input switches layers to that.

    A last output has the power of the result of each layer, and that of its error.
    """
    pairs = _pairs(function, converted)
    if not pairs:
        return []
    layers = [_described(anchor, other) for anchor, other in pairs.items()]
    switches = function.input(SWITCHES, TensorType(boolean, (len(pairs),)))
    powers = [
        _simulate(function, anchor, other, switches, place)
        for place, (anchor, other) in enumerate(pairs.items())
    ]
    b = Builder(function, origins=("simulation",))
    parts = [power for kind in zip(*powers, strict=True) for power in kind]
    function.output(POWERS, b.emit(Concat(0), *parts))
    return layers


def _simulate(
    function: Function, anchor: Node, other: _Converted, switches: Value, place: int
) -> tuple[Value, Value]:
    """Let a layer be as converted if its switch is on; the powers of its result and its error."""
    b = Builder(function, anchor.after, name=f"{anchor.name}.simulated", origins=anchor.origins)
    exact = anchor.result
    switch = b.emit(Reshape(()), b.emit(Slice((place,), (1,), (1,)), switches))
    with b.when(switch):
        simulated = _quantized(b, anchor, other)
    chosen = b.emit_node(Where(), switch, simulated, exact)
    function.replace(exact, chosen.result)
    chosen.set_operand(2, exact)
    with b.when(switch):
        powers = _power(b, exact), _power(b, b.emit(Sub(), simulated, exact))
    zero = b.constant(np.zeros(1, np.float32))
    power, error = (b.emit(Where(), switch, each, zero) for each in powers)
    return power, error


def _quantized(b: Builder, anchor: Node, other: _Converted) -> Value:
    """What a layer computes with what integers stand for."""
    x = anchor.operands[0]
    scale, zero = (b.constant(_data(operand)) for operand in other.quantize.operands[1:3])
    op = other.quantize.op
    assert isinstance(op, QuantizeLinear)
    stored = b.emit(op, x, scale, zero)
    real = b.emit(DequantizeLinear(op.axis), stored, scale, zero)
    weight = b.constant(_evaluated(other.weight))
    if isinstance(anchor.op, Conv):
        bias = None if other.bias is None else b.constant(other.bias)
        return b.emit(anchor.op, real, weight, bias)
    result = b.emit(anchor.op, real, weight)
    if other.bias is None:
        return result
    (add,) = anchor.result.users[:1]
    return b.emit(Add(), result, b.constant(other.bias - _data(add.operands[1])))


def _bias_of(anchor: Node) -> Array | None:
    """The bias of a converted layer in floats: its operand, or what is added to its result."""
    if isinstance(anchor.op, Conv):
        bias = anchor.operand("bias")
        return None if bias is None else _constant(bias)
    match anchor.result.users:
        case [Node(Add(), [Value() as x, Value(Node(DequantizeLinear()) as node)])]:
            return _evaluated(node) if x is anchor.result else None
    return None


def _bias_origin(anchor: Node) -> str:
    match anchor.result.users:
        case [Node(Add(), [_, Constant()]) as add]:
            return add.origin
    return ""


def _constant(value: Value) -> Array:
    return value.data if isinstance(value, Constant) else _evaluated(_producer(value))


def _producer(value: Value) -> Node:
    assert value.producer is not None
    return value.producer


def _evaluated(node: Node) -> Array:
    """What a node computes of constants."""
    return np.asarray(node.op.evaluate(*map(_data, node.operands)))


def _data(value: Value | None) -> Array:
    assert isinstance(value, Constant)
    return value.data


def _power(b: Builder, x: Value) -> Value:
    total = b.emit(ReduceSum(tuple(range(x.type.rank)), keepdims=False), b.emit(Mul(), x, x))
    return b.emit(Reshape((1,)), total)


def add_probes(function: Function, values: Mapping[str, Value]) -> list[str]:
    """Add outputs that return values, or samples of large ones; the names of the outputs."""
    names = []
    for name, value in values.items():
        names.append(f"\0value {name}")
        function.output(names[-1], _sampled(function, value))
    return names


def stored_values(function: Function, points: Sequence[str]) -> dict[str, Value]:
    """For each point of a converted function what its integers stand for, added to it."""
    return dict(_stored_values(function, {*points}))


def _stored_values(function: Function, points: set[str]) -> Iterator[tuple[str, Value]]:
    for node in [*function.nodes]:
        match node:
            case Node(QuantizeLinear(axis), [x, scale, zero]) if x and x.name in points:
                b = Builder(function, node.after, name=f"{x.name}.probed", origins=("probe",))
                yield x.name, b.emit(DequantizeLinear(axis), node.result, scale, zero)


def _sampled(function: Function, value: Value) -> Value:
    """Some rows of a value, evenly spread; all of it if it is small, or its shape not known."""
    shape = value.type.shape
    if any(map(is_ranged, shape)) or len(shape) < 2 or value.type.size <= SAMPLED:
        return value
    b = Builder(function, name="probe", origins=("probe",))
    width = shape[-1]
    count = value.type.size // width
    step = -(-value.type.size // SAMPLED) | 1
    rows = b.emit(Reshape((count, width)), value)
    return b.emit(Slice((0, 0), (-(-count // step), width), (step, 1)), rows)
