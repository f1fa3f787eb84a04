"""Elements that a mask chooses to be overwritten, for which exporters look for their places.

    y[mask] = f(x[mask])  ->  y = where(mask, f(x), y)

Of places only data tell how many there are; a choice by the mask needs none. Where f is not
computed element by element, at least rows are put where rows were taken, not element by element:
then there is one number of places, not two. Whether the shapes are such that all of it means the
same is seen when the node is imported: `MASKED` and `MASKED_ROWS` have the original form, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from afterglow.frontends.definition.model import (
    BY_PLACES,
    MASKED,
    MASKED_ROWS,
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


def _mask_of(names: Producers, places: str) -> str:
    """The mask of which a name is the places, a row for each; nothing if it is something else."""
    turned = names.producer(places, "Transpose")
    order = turned and turned.attributes.get("perm")
    if turned is None or (order and order.value != (1, 0)):
        return ""
    return _operand(names.producer(_operand(turned, 0), "NonZero"), 0)


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
    return match if match.is_whole or match.rows else None


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
        self.mask = self.spread = self.result = self.rows = self.places = ""
        self.is_whole = False
        _, places, updates = scatter.input
        self.full = self._mask_of(places)
        if not self.full:
            return
        rows = self._rows(places, updates)
        self.result = self._whole(rows)
        self.spread = self._spread()
        self.is_whole = self._is_whole()
        if not self.is_whole and rows != updates:
            self._find_places(rows)

    def _is_whole(self) -> bool:
        """Whether what is scattered is computed element by element of what was chosen."""
        if not (self.result and self.spread and self.picked):
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
        mask = _mask_of(self.names, places)
        if mask:
            self._made_by(_operand(self._made_by(places, "Transpose"), 0), "NonZero")
        return mask

    def _find_places(self, rows: str) -> None:
        """Look for places of whole rows: what is scattered may have been made row by row."""
        self.spread = _operand(self.names.producer(self.full, "Expand"), 0)
        self.mask = _operand(self.names.producer(self.spread, "Unsqueeze", "Reshape"), 0)
        names = self.names.producers if self.mask else ()
        self.places = next((x for x in names if _mask_of(self.names, x) == self.mask), "")
        self.rows = rows if self.places else ""

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
        attributes = {BY_PLACES: AttributeDef(AttributeKind.GRAPH, by_places)}
        given = (self.scatter.input[0], self.mask, self.spread, self.full)
        if not self.is_whole:
            return self._with_op(MASKED_ROWS, (*given, self.places, self.rows), attributes)
        whole = _graph(WHOLE, [*self.whole.values()], self.result)
        attributes[WHOLE] = AttributeDef(AttributeKind.GRAPH, whole)
        attributes[PICKED] = AttributeDef(AttributeKind.INT, len(self.picked))
        others = [name for name in self.others if name not in self.picked]
        return self._with_op(MASKED, (*given, *self.picked, *others), attributes)

    def _with_op(
        self, op: str, given: tuple[str, ...], attributes: dict[str, AttributeDef]
    ) -> NodeDef:
        scatter = self.scatter
        return NodeDef(op, ROWS_DOMAIN, scatter.name, given, scatter.output, attributes)


def _whole_name(name: str) -> str:
    return f"{name}\0whole"


def _graph(name: str, nodes: Sequence[NodeDef], result: str) -> GraphDef:
    return GraphDef(name, tuple(nodes), (), (ValueDef(result),))
