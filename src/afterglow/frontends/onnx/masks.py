"""Elements that a mask chooses to be overwritten, for which exporters look for their places.

    y[mask] = f(x[mask])  ->  y = where(mask, f(x), y)

Of places only data tell how many there are; a choice by the mask needs none. Whether the shapes
are such that both mean the same is seen when the node is imported: `MASKED` has both forms.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from afterglow.frontends.definition.model import (
    BY_PLACES,
    MASKED,
    PICKED,
    ROWS_DOMAIN,
    WHOLE,
    AttributeDef,
    AttributeKind,
    GraphDef,
    NodeDef,
    ValueDef,
)
from afterglow.frontends.definition.order import reads
from afterglow.frontends.definition.producers import Producers

_MOST_STEPS = 32
"""Nodes through which a value is followed, at most."""

_ELEMENTWISE = {
    *("Abs", "Add", "Ceil", "Clip", "Div", "Elu", "Erf", "Exp", "Floor", "LeakyRelu", "Log"),
    *("Max", "Min", "Mul", "Neg", "Pow", "Relu", "Round", "Sigmoid", "Sign", "Softplus", "Sqrt"),
    *("Sub", "Tanh"),
}
"""Ops that may be applied to all elements, and not only to those that are chosen."""


def with_masks(graph: GraphDef, outer: Producers | None = None) -> GraphDef:
    """The graph with a node of `MASKED` where a mask chooses what is overwritten."""
    names = Producers(graph, outer)
    nodes = [_with_inner(node, names) for node in graph.node]
    found = {id(node): match for node in nodes if (match := _match(names, node)) is not None}
    if not found:
        is_same = all(new is old for new, old in zip(nodes, graph.node, strict=True))
        return graph if is_same else replace(graph, node=tuple(nodes))
    places = {id(node) for match in found.values() for node in match.nodes.values()}
    changed = [found[id(node)].node(nodes) if id(node) in found else node for node in nodes]
    return replace(graph, node=tuple(_without_unread(changed, places, graph.output)))


def _with_inner(node: NodeDef, names: Producers) -> NodeDef:
    """A node whose own graphs have such nodes."""
    changed = {}
    for name, attribute in node.attributes.items():
        graphs = tuple(with_masks(graph, names) for graph in attribute.graphs)
        if any(new is not old for new, old in zip(graphs, attribute.graphs, strict=True)):
            value = graphs if attribute.kind is AttributeKind.GRAPHS else graphs[0]
            changed[name] = replace(attribute, value=value)
    return replace(node, attributes={**node.attributes, **changed}) if changed else node


def _without_unread(
    nodes: list[NodeDef], places: set[int], outputs: Sequence[ValueDef]
) -> list[NodeDef]:
    """Nodes without those that look for places which nothing reads any longer."""
    while True:
        read = {info.name for info in outputs}.union(*map(reads, nodes))
        left = [node for node in nodes if id(node) not in places or read.intersection(node.output)]
        if len(left) == len(nodes):
            return left
        nodes = left


def _operand(node: NodeDef | None, index: int) -> str:
    """What a node reads there; nothing if it does not."""
    return node.input[index] if node is not None and index < len(node.input) else ""


def _match(names: Producers, scatter: NodeDef) -> _Match | None:
    """What a node overwrites by a mask; None if it does something else."""
    if scatter.op_type != "ScatterND" or scatter.domain:
        return None
    if len(scatter.input) != 3 or not all((*scatter.input, *scatter.output[:1])):
        return None
    reduction = scatter.attributes.get("reduction")
    if reduction is not None and reduction.value != "none":
        return None
    match = _Match(names, scatter)
    return match if match.is_complete else None


class _Match:
    """A scatter to the places where a mask holds, of what was gathered from such places.

    Names that are not found are empty.
    """

    def __init__(self, names: Producers, scatter: NodeDef) -> None:
        self.names = names
        self.scatter = scatter
        self.nodes: dict[int, NodeDef] = {}
        """Those between the mask and the scatter."""
        self.picked: dict[str, None] = {}
        self.others: dict[str, None] = {}
        self.whole: dict[str, NodeDef] = {}
        self.mask = self.spread = self.result = ""
        _, places, updates = scatter.input
        self.full = self._mask_of(places)
        if self.full:
            self.result = self._whole(self._rows(places, updates))
            self.spread = self._spread()

    @property
    def is_complete(self) -> bool:
        """Whether it is all there."""
        if not (self.full and self.result and self.spread and self.picked):
            return False
        found = {name for node in self.nodes.values() for name in node.output}
        return not any(self.names.depends(name, found) for name in self.others)

    def _made_by(self, name: str, *ops: str) -> NodeDef | None:
        node = self.names.producer(name, *ops)
        if node is not None:
            self.nodes[id(node)] = node
        return node

    def _mask_of(self, places: str) -> str:
        """The mask of which a name is the places, a row for each."""
        turned = self._made_by(places, "Transpose")
        order = turned and turned.attributes.get("perm")
        if turned is None or (order and order.value != (1, 0)):
            return ""
        return _operand(self._made_by(_operand(turned, 0), "NonZero"), 0)

    def _spread(self) -> str:
        """The mask before it is repeated along further axes."""
        if self.full == self.mask:
            return self.mask
        spread = _operand(self.names.producer(self.full, "Expand"), 0)
        before = _operand(self.names.producer(spread, "Unsqueeze", "Reshape"), 0)
        return spread if self.mask in (spread, before) else ""

    def _rows(self, places: str, updates: str) -> str:
        """What is scattered, before it is made one row as long as there are places."""
        cut = self._made_by(updates, "Slice")
        if cut and self._keeps_all(cut, places):
            updates = cut.input[0]
        flat = self._made_by(updates, "Reshape")
        is_flat = self.names.integer(_operand(flat, 1)) == -1
        return _operand(flat, 0) if is_flat else updates

    def _keeps_all(self, cut: NodeDef, places: str) -> bool:
        """Whether a slice takes as many elements as there are places."""
        start, axis = (self.names.integer(_operand(cut, index)) for index in (1, 3))
        step = 1 if len(cut.input) < 5 else self.names.integer(cut.input[4])
        if (start, axis, step) != (0, 0, 1):
            return False
        end = self._made_by(cut.input[2], "Unsqueeze", "Reshape")
        count = self._made_by(_operand(end or cut, 0 if end else 2), "Gather")
        shape = self._made_by(_operand(count, 0), "Shape")
        is_first = self.names.integer(_operand(count, 1)) == 0
        return is_first and _operand(shape, 0) == places and not (shape and shape.attributes)

    def _whole(self, name: str, depth: int = 0) -> str:
        """What a name would stand for if all elements were chosen."""
        gather = self._made_by(name, "GatherND")
        if gather:
            return self._source(gather)
        if name in self.whole:
            return _whole_name(name)
        node = self.names.producer(name, *_ELEMENTWISE)
        if name in self.others or not node or depth > _MOST_STEPS:
            self.others[name] = None
            return name
        others = dict(self.others)
        inputs = tuple(self._whole(each, depth + 1) for each in node.input)
        if inputs == node.input and not self.picked.keys() & {*inputs}:
            self.others = {**others, name: None}
            return name
        self._made_by(name, node.op_type)
        self.whole[name] = replace(node, input=inputs, output=(_whole_name(name),))
        return _whole_name(name) if all(inputs) else ""

    def _source(self, gather: NodeDef) -> str:
        """What a node gathers from, by the places of the same mask as others do."""
        mask = self._mask_of(_operand(gather, 1))
        self.mask = self.mask or mask
        if not mask or mask != self.mask or any(each.value for each in gather.attributes.values()):
            return ""
        self.picked[gather.input[0]] = None
        return gather.input[0]

    def node(self, nodes: Sequence[NodeDef]) -> NodeDef:
        """The node that has both forms."""
        inner = [node for node in nodes if id(node) in self.nodes]
        by_places = _graph(BY_PLACES, [*inner, self.scatter], self.scatter.output[0])
        whole = _graph(WHOLE, [*self.whole.values()], self.result)
        others = [name for name in self.others if name not in self.picked]
        attributes = {
            PICKED: AttributeDef(AttributeKind.INT, len(self.picked)),
            BY_PLACES: AttributeDef(AttributeKind.GRAPH, by_places),
            WHOLE: AttributeDef(AttributeKind.GRAPH, whole),
        }
        masks = (self.mask, self.spread, self.full)
        given = (self.scatter.input[0], *masks, *self.picked, *others)
        return NodeDef(
            MASKED, ROWS_DOMAIN, self.scatter.name, given, self.scatter.output, attributes
        )


def _whole_name(name: str) -> str:
    return f"{name}\0whole"


def _graph(name: str, nodes: Sequence[NodeDef], result: str) -> GraphDef:
    return GraphDef(name, tuple(nodes), (), (ValueDef(result),))
