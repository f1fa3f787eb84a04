"""Structure-aware mutation of ONNX models: one small change of the protobuf at a time."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import onnx
from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto, helper

Mutation = Callable[[ModelProto, random.Random, ModelProto], None]
"""Changes a model in place; the other model is one to take parts from."""

INTEGERS = [
    *(
        -(2**63),
        -(2**31),
        -65536,
        -100,
        -7,
        -3,
        -2,
        -1,
        0,
        1,
        2,
        3,
        4,
        5,
        7,
        8,
        16,
        31,
        63,
        64,
        100,
    ),
    *(255, 256, 1000, 4096, 65535, 65536, 100_000, 2**24, 2**31 - 1, 2**31, 2**32, 2**40, 2**62),
    2**63 - 1,
]
FLOATS = [0.0, -0.0, 1.0, -1.0, 0.5, 1e-45, 1e-8, 1e8, 1e38, -1e38, float("nan"), float("inf")]
STRINGS = [
    b"",
    b"a",
    b"x" * 300,
    b"\0",
    b"../../etc",
    b"linear",
    b"constant",
    b"SAME_UPPER",
    b"a,b->c",
]
NAMES = ["", "a", "x" * 300, "%x", "a/b:0", "y\n", "Ω", "0"]
VERSIONS = [-1, 0, 1, 6, 7, 9, 10, 11, 12, 13, 14, 16, 18, 21, 23, 24, 26, 27, 1000, 2**40]


def mutate(model: ModelProto, rng: random.Random, other: ModelProto) -> None:
    """Make one to four random changes."""
    for _ in range(rng.choice([1, 1, 1, 2, 2, 3, 4])):
        rng.choice(MUTATIONS)(model, rng, other)


def _graph(model: ModelProto, rng: random.Random) -> GraphProto:
    """The graph, or now and then one inside of it."""
    graph = model.graph
    while rng.random() < 0.5:
        inner = [a.g for node in graph.node for a in node.attribute if a.HasField("g")]
        if not inner:
            break
        graph = rng.choice(inner)
    return graph


def _node(model: ModelProto, rng: random.Random) -> NodeProto | None:
    nodes = _graph(model, rng).node
    return rng.choice(nodes) if nodes else None


def _values(graph: GraphProto) -> list[str]:
    """All names of values in a graph."""
    made = [name for node in graph.node for name in node.output]
    given = [info.name for info in graph.input] + [t.name for t in graph.initializer]
    return [*made, *given, *(info.name for info in graph.output)]


def change_attribute(model: ModelProto, rng: random.Random, _: ModelProto) -> None:
    """Another value for one attribute of a node."""
    node = _node(model, rng)
    if node is None or not node.attribute:
        return
    attribute = rng.choice(node.attribute)
    match attribute.type:
        case AttributeProto.INT:
            attribute.i = rng.choice(INTEGERS)
        case AttributeProto.FLOAT:
            attribute.f = rng.choice(FLOATS)
        case AttributeProto.STRING:
            attribute.s = rng.choice(STRINGS)
        case AttributeProto.TENSOR:
            _change_tensor(attribute.t, rng)
        case AttributeProto.INTS:
            _change_list(attribute.ints, rng, INTEGERS)
        case AttributeProto.FLOATS:
            _change_list(attribute.floats, rng, FLOATS)
        case AttributeProto.STRINGS:
            _change_list(attribute.strings, rng, STRINGS)
        case _:
            attribute.type = rng.randint(0, 16)  # type: ignore[assignment]


def _change_list(items: Any, rng: random.Random, values: list[Any]) -> None:
    """Replace, drop, add or repeat an element."""
    kept = list(items)
    match rng.randint(0, 3):
        case 0 if kept:
            kept[rng.randrange(len(kept))] = rng.choice(values)
        case 1 if kept:
            kept.pop(rng.randrange(len(kept)))
        case 2:
            kept.append(rng.choice(values))
        case _:
            kept = kept * rng.randint(0, 3)
    del items[:]
    items.extend(kept)


def retype_attribute(model: ModelProto, rng: random.Random, _: ModelProto) -> None:
    """An attribute of another type, or that no one asked for, or none."""
    node = _node(model, rng)
    if node is None:
        return
    name = rng.choice([*(a.name for a in node.attribute), "axis", "to", "nosuch"])
    kept = [a for a in node.attribute if a.name != name or rng.random() < 0.1]
    value = rng.choice(
        [rng.choice(INTEGERS), rng.choice(FLOATS), rng.choice(STRINGS), [1, 2], None]
    )
    if value is not None:
        kept.append(helper.make_attribute(name, value))
    del node.attribute[:]
    node.attribute.extend(kept)


def borrow_attributes(model: ModelProto, rng: random.Random, other: ModelProto) -> None:
    """The attributes of a node of another model."""
    node, source = _node(model, rng), _node(other, rng)
    if node is not None and source is not None:
        node.attribute.extend(source.attribute)


def change_shape(model: ModelProto, rng: random.Random, _: ModelProto) -> None:
    """Other extents for an input, output or intermediate value."""
    graph = _graph(model, rng)
    infos = [*graph.input, *graph.output, *graph.value_info]
    if not infos:
        return
    shape = rng.choice(infos).type.tensor_type.shape
    match rng.randint(0, 4):
        case 0 | 1 if shape.dim:
            rng.choice(shape.dim).dim_value = rng.choice(INTEGERS)
        case 2 if shape.dim:
            rng.choice(shape.dim).dim_param = rng.choice(NAMES)
        case 3 if shape.dim:
            del shape.dim[rng.randrange(len(shape.dim)) :]
        case _:
            shape.dim.add().dim_value = rng.choice([0, 1, 2, 3])


def change_type(model: ModelProto, rng: random.Random, _: ModelProto) -> None:
    """Another element type for a value, or no type."""
    graph = _graph(model, rng)
    infos = [*graph.input, *graph.output]
    if not infos:
        return
    info = rng.choice(infos)
    if rng.random() < 0.1:
        info.ClearField("type")
    elif rng.random() < 0.1:
        info.type.sequence_type.elem_type.tensor_type.elem_type = rng.randint(0, 26)
    else:
        info.type.tensor_type.elem_type = rng.randint(0, 26)


def rename(model: ModelProto, rng: random.Random, _: ModelProto) -> None:
    """Another name for a value, a node, or a node's op or domain."""
    graph = _graph(model, rng)
    node = rng.choice(graph.node) if graph.node else NodeProto()
    match rng.randint(0, 4):
        case 0:
            node.name = rng.choice(NAMES)
        case 1:
            node.domain = rng.choice([*NAMES, "ai.onnx", "ai.onnx.ml", "com.microsoft"])
        case 2 if graph.input:
            rng.choice(graph.input).name = rng.choice([*NAMES, *_values(graph)])
        case 3 if graph.output:
            rng.choice(graph.output).name = rng.choice([*NAMES, *_values(graph)])
        case _ if graph.initializer:
            rng.choice(graph.initializer).name = rng.choice([*NAMES, *_values(graph)])


def rewire(model: ModelProto, rng: random.Random, _: ModelProto) -> None:
    """Another operand or result for a node: any value, its own result too, or none."""
    graph = _graph(model, rng)
    if not graph.node:
        return
    node = rng.choice(graph.node)
    names = [*_values(graph), "", "nosuch"]
    field = rng.choice([node.input, node.input, node.input, node.output])
    _change_list(field, rng, names)


def change_op(model: ModelProto, rng: random.Random, other: ModelProto) -> None:
    """Another op for a node, on the same operands."""
    node, source = _node(model, rng), _node(other, rng)
    if node is None or source is None:
        return
    node.op_type, node.domain = source.op_type, source.domain
    if rng.random() < 0.5:
        del node.attribute[:]
        node.attribute.extend(source.attribute)


def reorder(model: ModelProto, rng: random.Random, _: ModelProto) -> None:
    """Nodes dropped, repeated or in another order."""
    graph = _graph(model, rng)
    if not graph.node:
        return
    nodes = [NodeProto.FromString(node.SerializeToString()) for node in graph.node]
    match rng.randint(0, 2):
        case 0:
            nodes.pop(rng.randrange(len(nodes)))
        case 1:
            nodes.append(rng.choice(nodes))
        case _:
            rng.shuffle(nodes)
    del graph.node[:]
    graph.node.extend(nodes)


def change_initializer(model: ModelProto, rng: random.Random, _: ModelProto) -> None:
    """Other data, shape or type for a weight."""
    tensors = _graph(model, rng).initializer
    if tensors:
        _change_tensor(rng.choice(tensors), rng)


def _change_tensor(tensor: TensorProto, rng: random.Random) -> None:
    match rng.randint(0, 5):
        case 0:
            tensor.data_type = rng.randint(0, 26)
        case 1:
            _change_list(tensor.dims, rng, INTEGERS)
        case 2:
            tensor.raw_data = tensor.raw_data[: rng.randint(0, len(tensor.raw_data))]
        case 3:
            tensor.data_location = TensorProto.EXTERNAL
            place = tensor.external_data.add()
            place.key, place.value = "location", rng.choice(["a", "../a", "/dev/zero", "", "."])
        case _:
            _change_data(tensor, rng)


def _change_data(tensor: TensorProto, rng: random.Random) -> None:
    fields = [tensor.int64_data, tensor.int32_data, tensor.uint64_data]
    for field in fields:
        if field:
            field[rng.randrange(len(field))] = rng.choice([0, 1, 2, 3, 127, 1000, 2**31 - 1])
    if tensor.float_data:
        tensor.float_data[rng.randrange(len(tensor.float_data))] = rng.choice(FLOATS)
    raw = bytearray(tensor.raw_data)
    width = 8 if tensor.data_type in (TensorProto.INT64, TensorProto.DOUBLE) else 4
    if len(raw) >= width:
        at = rng.randrange(len(raw) // width) * width
        raw[at : at + width] = (rng.choice(INTEGERS) % 2 ** (8 * width)).to_bytes(width, "little")
        tensor.raw_data = bytes(raw)


def bind_input(model: ModelProto, rng: random.Random, _: ModelProto) -> None:
    """An input becomes a weight with odd numbers."""
    graph = model.graph
    small = [i for i in graph.input if len(i.type.tensor_type.shape.dim) <= 1]
    if not small:
        return
    info = rng.choice(small)
    kind = info.type.tensor_type
    extents = [min(max(d.dim_value, 0), 64) for d in kind.shape.dim]
    tensor = TensorProto(name=info.name, data_type=kind.elem_type, dims=extents)
    count = extents[0] if extents else 1
    if kind.elem_type == TensorProto.INT64:
        tensor.int64_data.extend(rng.choice(INTEGERS) for _ in range(count))
    elif kind.elem_type == TensorProto.FLOAT:
        tensor.float_data.extend(rng.choice(FLOATS) for _ in range(count))
    else:
        tensor.int32_data.extend(rng.choice([0, 1, 2, -1, 127]) for _ in range(count))
    graph.initializer.append(tensor)


def change_versions(model: ModelProto, rng: random.Random, _: ModelProto) -> None:
    """Another opset or IR version."""
    match rng.randint(0, 3):
        case 0:
            model.ir_version = rng.choice(VERSIONS)
        case 1:
            del model.opset_import[:]
        case 2:
            model.opset_import.add().version = rng.choice(VERSIONS)
        case _ if model.opset_import:
            rng.choice(model.opset_import).version = rng.choice(VERSIONS)


def append_graph(model: ModelProto, rng: random.Random, other: ModelProto) -> None:
    """The nodes of another model behind those of this one."""
    mine, theirs = model.graph, other.graph
    names = [name for name in _values(mine) if name]
    if not names:
        return
    bound = {info.name: rng.choice(names) for info in theirs.input}
    for node in theirs.node:
        copy = mine.node.add()
        copy.CopyFrom(node)
        renamed = [bound.get(name, f"{name}_2" if name else "") for name in node.input]
        del copy.input[:]
        copy.input.extend(renamed)
        results = [f"{name}_2" if name else "" for name in node.output]
        del copy.output[:]
        copy.output.extend(results)
    for tensor in theirs.initializer:
        mine.initializer.add().CopyFrom(tensor)
        mine.initializer[-1].name += "_2"
    for info in theirs.output:
        mine.output.add().name = f"{info.name}_2"


MUTATIONS: list[Mutation] = [
    *(change_attribute, change_attribute, retype_attribute, borrow_attributes),
    *(change_shape, change_shape, change_type, rename, rewire, rewire),
    *(change_op, change_op, reorder, change_initializer, change_initializer),
    *(bind_input, bind_input, change_versions, append_graph, append_graph),
]


def parsed(data: bytes) -> ModelProto:
    """A model from its bytes."""
    return onnx.load_from_string(data)
