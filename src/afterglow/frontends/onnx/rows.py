"""Loops that end when they like: with room for what they may make, and how much there is of it.

ONNX's Loop stacks what each iteration returns, and may carry values that become longer, so that
shapes depend on the number of iterations. Here such a loop gets further outputs: the number of
rows, then a length for each carried value that grows. It may return more than that; what the model
reads is a Slice of it. So the loop has static types, and only the Slice does not.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping, Sequence

from afterglow.frontends.definition.model import (
    CUT_AXES,
    FIRST_ROWS,
    ROWS_DOMAIN,
    SEQUENCE_OF_ROWS,
    count_name,
    rows_name,
)
from afterglow.frontends.onnx.external import DataFiles
from afterglow.frontends.onnx.messages import (
    AttributeProto,
    GraphProto,
    ModelProto,
    NodeProto,
    TensorProto,
)
from afterglow.frontends.onnx.tensors import tensor_array
from afterglow.support.errors import AfterglowError
from afterglow.support.lazy_dataclass import dataclass

_FIRST_OPSET = 10
"""Since when a Slice takes its bounds as inputs."""

_MOST_STEPS = 32
"""Nodes through which a value is followed that becomes longer, at most."""

_REARRANGING = {"Cast", "Gather", "GatherElements", "ScatterElements"}
"""Ops behind which a value is as long as before along the axis that grows, most often."""

_FOLLOWED = {
    *("Abs", "Add", "Cast", "Clip", "Concat", "Div", "Exp", "Identity", "Log", "Max", "Min", "Mul"),
    *("Neg", "Not", "Relu", "Sigmoid", "Softmax", "Sqrt", "Sub", "Tanh", "Where"),
}
"""Ops that return a value which is as long as the first one that they take, or longer."""

_READERS = {
    *("ConcatFromSequence", "SequenceLength", "SequenceAt", "SequenceInsert", "SequenceErase"),
    "Loop",
}
"""Ops that take a list as rows."""


def with_rows(proto: ModelProto) -> ModelProto:
    """The model with Slices behind such loops: a copy of it if there are any."""
    opset = max((e.version for e in proto.opset_import if e.domain in ("", "ai.onnx")), default=0)
    if opset < _FIRST_OPSET:
        return proto
    if not _any_ends_when_it_likes(proto.graph) and not any(_lists_behind(proto.graph)):
        return proto
    copy = ModelProto()
    copy.CopyFrom(proto)
    lists = [*_lists_behind(copy.graph)]
    _split_rows(copy.graph)
    for loop, places in lists:
        copy.graph.node.extend(_split_lists(loop, places))
    return copy


def _any_ends_when_it_likes(graph: GraphProto) -> bool:
    return any(
        _needs_slices(node) or any(map(_any_ends_when_it_likes, proto_graphs(node)))
        for node in graph.node
    )


def _split_rows(graph: GraphProto) -> None:
    used = {info.name for info in graph.output}.union(*map(_names_read, graph.node))
    for node in [*graph.node]:
        for inner in proto_graphs(node):
            _split_rows(inner)
        if _needs_slices(node):
            graph.node.extend(_slices(node, used))


def _names_read(node: NodeProto) -> set[str]:
    """The names that a node reads, or graphs in it do."""
    found = set(node.input)
    for graph in proto_graphs(node):
        found.update(info.name for info in graph.output)
        found.update(*map(_names_read, graph.node))
    return found


def _slices(loop: NodeProto, used: Container[str]) -> list[NodeProto]:
    """What stands behind a loop once it counts its rows, and measures what it carries."""
    body = _body(loop)
    carried = len(body.input) - 2
    grown = {loop.output[place]: growth.axis for place, growth in growing(loop).items()}
    axes = {name: axis for name, axis in grown.items() if name in used}
    stacked = [name for name in loop.output[carried:] if name]
    cut = [*axes, *stacked]
    if not cut:
        return []
    start = cut[0] + "\0start"
    outputs = [rows_name(name) if name in cut else name for name in loop.output]
    missing = len(body.output) - 1 - len(loop.output)
    count = count_name(stacked[0]) if stacked else ""
    lengths = [count_name(name) if name in axes else "" for name in loop.output[:carried]]
    loop.attribute.append(_cut_axes([axes.get(name, 0) for name in loop.output[:carried]]))
    loop.output[:] = [*outputs, *[""] * missing, count, *lengths]
    nodes = [_integer(start, 0)]
    for name in cut:
        given = [rows_name(name), start, count_name(name) if name in axes else count]
        if axes.get(name, 0):
            nodes.append(_integer(name + "\0axis", axes[name]))
            given.append(name + "\0axis")
        nodes.append(NodeProto(op_type="Slice", input=given, output=[name], name=loop.name))
    return nodes


def _split_lists(loop: NodeProto, places: Sequence[int]) -> list[NodeProto]:
    """Have a loop return rows of lists, and how many of them there are; what stands behind it."""
    carried, outputs = len(_body(loop).input) - 2, len(_body(loop).output)
    if not any(attribute.name == CUT_AXES for attribute in loop.attribute):
        loop.output.extend([""] * (outputs - len(loop.output) + carried))
        loop.attribute.append(_cut_axes([0] * carried))
    nodes = []
    for place in places:
        name = loop.output[place]
        parts, present = [rows_name(name), count_name(name)], name + "\0present"
        loop.output[place], loop.output[outputs + place] = parts
        for op, given, made in ((FIRST_ROWS, parts, present), (SEQUENCE_OF_ROWS, [present], name)):
            nodes.append(
                NodeProto(
                    op_type=op, input=given, output=[made], name=loop.name, domain=ROWS_DOMAIN
                )
            )
    return nodes


def _lists_behind(graph: GraphProto) -> Iterator[tuple[NodeProto, list[int]]]:
    """The loops of a graph with the places of lists that they carry, and of which rows are read."""
    returned = {info.name for info in graph.output}
    users: dict[str, list[NodeProto]] = {}
    for node in graph.node:
        for name in node.input:
            users.setdefault(name, []).append(node)
    for loop in filter(_is_loop, graph.node):
        body = _body(loop)
        places = [
            place
            for place, name in enumerate(loop.output[: len(body.input) - 2])
            if body.output[1 + place].type.HasField("sequence_type")
            and name
            and name not in returned
            and all(user.op_type in _READERS for user in users.get(name, ()))
        ]
        if places:
            yield loop, places


def _integer(name: str, number: int) -> NodeProto:
    tensor = TensorProto(data_type=TensorProto.INT64, dims=[1], int64_data=[number])
    value = AttributeProto(name="value", type=AttributeProto.TENSOR, t=tensor)
    return NodeProto(op_type="Constant", output=[name], attribute=[value])


def _cut_axes(axes: Sequence[int]) -> AttributeProto:
    return AttributeProto(name=CUT_AXES, type=AttributeProto.INTS, ints=axes)


def _needs_slices(node: NodeProto) -> bool:
    """Whether it is a loop that stacks something or makes it longer, and data tell how much."""
    if _ends_when_it_likes(node):
        return any(node.output[len(_body(node).input) - 2 :]) or bool(growing(node))
    return _is_loop(node) and any(not each.is_always for each in growing(node).values())


@dataclass(frozen=True)
class Growth:
    """How a value grows out of another one: along an axis, and whether it does so each time."""

    axis: int
    is_always: bool = True


def growing(loop: NodeProto) -> dict[int, Growth]:
    """The places of carried values that the body appends something to."""
    body = _body(loop)
    found = {}
    for place, name in enumerate(loop.output[: len(body.input) - 2]):
        start, end = body.input[2 + place].name, body.output[1 + place].name
        growth = _growth(_Names(body), start, end) if name else None
        if growth is not None:
            found[place] = growth
    return found


def _integers(tensor: TensorProto) -> Sequence[int]:
    """The integers that a message holds itself; none if they are others, or not what it says."""
    if tensor.data_type not in (TensorProto.INT32, TensorProto.INT64):
        return ()
    try:
        array = tensor_array(tensor, DataFiles.none())
    except AfterglowError:
        return ()  # whoever imports the tensor reports it
    return [int(number) for number in array.flat]


class _Names:
    """What produces the names of a graph, within graphs around it."""

    def __init__(self, graph: GraphProto, outer: _Names | None = None) -> None:
        self.producers = {name: node for node in graph.node for name in node.output}
        self.tensors = {tensor.name: tensor for tensor in graph.initializer}
        self.outer = outer

    def constant(self, name: str) -> Sequence[int]:
        """The integers that a name stands for, whatever their shape; none if it is no constant."""
        names = self
        for _ in range(_MOST_STEPS):
            made = names.producer(name)
            if made is None:
                return names._tensor(names.original(name))
            node, names = made
            if node.op_type == "Constant":
                value = next((a for a in node.attribute if a.name == "value"), None)
                return () if value is None else _integers(value.t)
            if node.op_type not in ("Reshape", "Squeeze", "Unsqueeze"):
                return ()
            name = node.input[0]
        return ()

    def _tensor(self, name: str) -> Sequence[int]:
        if name in self.tensors:
            return _integers(self.tensors[name])
        return self.outer._tensor(name) if self.outer else ()

    def original(self, name: str) -> str:
        """The value that a name stands for, here or outside."""
        name = _original(self.producers, name)
        return name if name in self.producers or not self.outer else self.outer.original(name)

    def producer(self, name: str) -> tuple[NodeProto, _Names] | None:
        """The node that a name comes from, and the graph it is in."""
        name = self.original(name)
        if name in self.producers:
            return self.producers[name], self
        return self.outer.producer(name) if self.outer else None


def _growth(names: _Names, start: str, end: str, depth: int = 0) -> Growth | None:
    """How a value that a name stands for grows out of another one, if it does."""
    made = names.producer(end)
    if made is None or depth > _MOST_STEPS:
        return None
    end = names.original(end)
    node, names = made
    if node.op_type == "Concat":
        return _growth_by_concat(names, node, start, depth) or _told_by_data(names, node, end)
    if node.op_type == "If":
        return _growth_in_branch(names, node, start, end, depth)
    if _is_loop(node):
        return _growth_in_loop(names, node, start, end, depth)
    if node.op_type == "Slice" and node.input[0] == rows_name(node.output[0]):
        return _growth_cut(names, node, start, depth)
    return _told_by_data(names, node, end)


def _told_by_data(names: _Names, node: NodeProto, end: str) -> Growth | None:
    """A value that is another one each time, of which data may tell how long it is."""
    for _ in range(_MOST_STEPS):
        if node.op_type in _CHOOSING and _CHOOSING[node.op_type](names, node):
            return Growth(_axis_of(names, node), is_always=False)
        if node.op_type not in _FOLLOWED or not node.input:
            return None
        made = names.producer(node.input[0])
        if made is None:
            return None
        node, names = made
    return None


def _axis_of(names: _Names, node: NodeProto) -> int:
    """Along which axis a node chooses elements; 0 if that is not to be seen."""
    own = next((a for a in node.attribute if a.name in ("axis", "axes")), None)
    if own is not None:
        return own.i if own.name == "axis" else next(iter(own.ints), 0)
    axes = names.constant(node.input[3]) if node.op_type == "Slice" and len(node.input) > 3 else ()
    return next(iter(axes), 0)


def _is_of_non_zero(names: _Names, node: NodeProto) -> bool:
    """Whether the indices of a Gather are places of elements that are not 0."""
    name = node.input[1] if len(node.input) > 1 else ""
    for _ in range(_MOST_STEPS):
        made = names.producer(name)
        if made is None or not made[0].input:
            return False
        (node, names) = made
        if node.op_type in ("NonZero", "Compress"):
            return True
        name = node.input[0]
    return False


_CHOOSING: Mapping[str, Callable[[_Names, NodeProto], bool]] = {
    "Slice": lambda names, node: True,
    "Compress": lambda names, node: True,
    "Gather": _is_of_non_zero,
    "GatherND": _is_of_non_zero,
}
"""Ops that may choose another number of elements each time, and whether they do."""


def _growth_by_concat(names: _Names, node: NodeProto, start: str, depth: int) -> Growth | None:
    axis = next((a.i for a in node.attribute if a.name == "axis"), 0)
    if any(_is_rearranged(names, start, name) for name in node.input):
        return Growth(axis, not any(_may_be_empty(names, name) for name in node.input))
    found = (_growth(names, start, name, depth + 1) for name in node.input)
    before = next((each for each in found if each is not None), None)
    return before if before is None or before.axis == axis else None


def _is_rearranged(names: _Names, start: str, name: str) -> bool:
    """Whether a name stands for a value, or for its elements in another order, as of beams."""
    for _ in range(_MOST_STEPS):
        name = names.original(name)
        if name == start:
            return True
        made = names.producer(name)
        if made is None or made[0].op_type not in _REARRANGING:
            return False
        (node, names) = made
        name = node.input[0]
    return False


def _may_be_empty(names: _Names, name: str) -> bool:
    """Whether data may tell how long something is: a branch's result."""
    made = names.producer(name)
    return made is not None and (made[0].op_type == "If" or _is_loop(made[0]))


def _growth_in_branch(
    names: _Names, node: NodeProto, start: str, end: str, depth: int
) -> Growth | None:
    """A value that one branch at least makes longer."""
    place, found, stays = list(node.output).index(end), [], False
    for branch in proto_graphs(node):
        if place >= len(branch.output):
            return None
        inside, name = _Names(branch, names), branch.output[place].name
        stays |= inside.original(name) == start
        found.append(_growth(inside, start, name, depth + 1))
    grown = [each for each in found if each is not None]
    if not grown:
        return None
    if len(grown) < len(found) and not stays:
        return Growth(grown[0].axis, is_always=False)
    return Growth(grown[0].axis, len(grown) == len(found) and all(g.is_always for g in grown))


def _growth_cut(names: _Names, node: NodeProto, start: str, depth: int) -> Growth | None:
    """What an inner loop carries that was split already."""
    made = names.producer(node.input[0])
    if made is None:
        return None
    loop, names = made
    axes = next((a.ints for a in loop.attribute if a.name == CUT_AXES), ())
    place = list(loop.output).index(node.input[0])
    if place >= len(axes):
        return None
    before = names.original(loop.input[2 + place])
    if before == start:
        return Growth(axes[place], is_always=False)
    return _growth(names, start, before, depth + 1)


def _growth_in_loop(
    names: _Names, node: NodeProto, start: str, end: str, depth: int
) -> Growth | None:
    """A value that an inner loop carries, and makes longer."""
    place = list(node.output).index(end)
    if 2 + place >= len(node.input) or place >= len(_body(node).input) - 2:
        return None
    inner = growing(node).get(place)
    before = names.original(node.input[2 + place])
    if before == start:
        return inner and Growth(inner.axis, inner.is_always and not _ends_when_it_likes(node))
    return _growth(names, start, before, depth + 1)


def _original(producers: Mapping[str, NodeProto], name: str) -> str:
    """The value that a name stands for: what an Identity takes instead of what it gives."""
    for _ in producers:  # as many as may follow each other, unless they form a cycle
        if name in producers and producers[name].op_type == "Identity" and producers[name].input:
            name = producers[name].input[0]
    return name


def proto_graphs(node: NodeProto) -> Iterator[GraphProto]:
    """The graphs that a node has as attributes."""
    for attribute in node.attribute:
        if attribute.HasField("g"):
            yield attribute.g
        yield from attribute.graphs


def _body(loop: NodeProto) -> GraphProto:
    found: Iterator[GraphProto] = (a.g for a in loop.attribute if a.name == "body")
    return next(found)


def _ends_when_it_likes(node: NodeProto) -> bool:
    """Whether it is a loop that more than its limit may end."""
    return _is_loop(node) and not _always_goes_on(_body(node))


def _is_loop(node: NodeProto) -> bool:
    """Whether it is a loop that returns no more than its body does."""
    has_body = any(a.name == "body" and a.HasField("g") for a in node.attribute)
    if node.op_type != "Loop" or node.domain not in ("", "ai.onnx") or not has_body:
        return False
    body = _body(node)
    if len(body.input) < 2 or not len(body.input) - 1 <= len(body.output):
        return False
    return len(node.output) < len(body.output)


def _always_goes_on(body: GraphProto) -> bool:
    """Whether what it returns first is what it was given, or the same each time."""
    producers = {name: node for node in body.node for name in node.output}
    name = _original(producers, body.output[0].name)
    return name not in producers or producers[name].op_type == "Constant"
