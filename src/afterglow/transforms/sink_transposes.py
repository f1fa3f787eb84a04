"""Move transposes to where they cost least: mostly down, until they meet their inverse.

A model whose importer wrapped each convolution in transposes comes out with its channels last
throughout, and transposes only where values come in and go out.
"""

from __future__ import annotations

from afterglow.graph import Builder, Constant, Function, Node, Value
from afterglow.ops.movement import Reshape, Transpose
from afterglow.passes import Pass, Property, RewritePass
from afterglow.transforms.drop_dead import drop_dead_nodes
from afterglow.transforms.layouts.choice import choose_layouts
from afterglow.transforms.layouts.layout import Layout
from afterglow.transforms.layouts.moved import transposition
from afterglow.transforms.layouts.permutations import Perm, composed, inverse
from afterglow.transforms.layouts.proposals import Proposals
from afterglow.transforms.loss_layouts import (
    cross_entropy_of_transpose,
    difference_of_transpose,
)
from afterglow.transforms.matching.values import constant_like
from afterglow.transforms.regroup_axes import REGROUP_AXES
from afterglow.transforms.reorder_rows import reorder_rows
from afterglow.transforms.reshapes import (
    compose_reshapes,
    drop_idle_reshape,
    reshape_constant,
    transpose_by_reshape,
)
from afterglow.transforms.transposes import (
    compose_around_reshape,
    compose_transposes,
    drop_identity_transpose,
    keep_rows_whole,
    multiply_transposed,
    transpose_constant,
)

_RULES = (
    compose_transposes,
    drop_identity_transpose,
    transpose_constant,
    compose_reshapes,
    drop_idle_reshape,
    reshape_constant,
)
BEFORE = RewritePass("before-sinking", (*_RULES, *REGROUP_AXES.rules))
AFTER = RewritePass(
    "after-sinking",
    (
        *_RULES,
        compose_around_reshape,
        transpose_by_reshape,
        reorder_rows,
        multiply_transposed,
        keep_rows_whole,
        cross_entropy_of_transpose,
        difference_of_transpose,
    ),
)


class SinkTransposes(Pass):
    """Nodes work in the layout in which the fewest bytes have to be transposed."""

    name = "sink-transposes"
    provides = frozenset({Property.CHANNELS_LAST})

    def run(self, function: Function) -> bool:
        """See the class."""
        changed = BEFORE.run(function)
        if _Mover(function).run():
            drop_dead_nodes(function)
            changed = True
        return AFTER.run(function) or changed


class _Mover:
    """Rebuilds the nodes that are to work in another layout."""

    def __init__(self, function: Function) -> None:
        self.function = function
        self.proposals = Proposals(function)
        self.chosen = choose_layouts(function, self.proposals)
        self.moved: dict[Value, tuple[Value, Layout]] = {}
        """Values that lie in another layout, and themselves there."""
        self.made: dict[tuple[Value, object], Value] = {}
        """Other values that were brought into an order of elements, and themselves there."""

    def run(self) -> bool:
        if not any(value in self.proposals.moves for value in self.chosen):
            return False
        for node in list(self.function.nodes):
            if node.results[0] not in self.chosen:
                continue
            perm = transposition(node)
            if perm is not None:
                self._move_transpose(node, perm)
            else:
                self._move(node)
        return True

    def _move(self, node: Node) -> None:
        b = self._builder(node, node)
        moved = self.proposals.moves[node.results[0]]
        operands = [
            value if value is None or layout is None else self._lying_in(node, value, layout)
            for value, layout in zip(node.operands, moved.operands, strict=True)
        ]
        found = b.emit_all(moved.op, *operands)
        shape = node.results[0].type.shape
        back = [_back(b, new, moved.result, shape) for new in found]
        names = [old.name for old in node.results]
        for old, own in zip(node.results, back, strict=True):
            self.function.replace(old, own)
        self.function.erase(node)
        for new, own, name in zip(found, back, names, strict=True):
            self.function.rename(new, name)
            if own is not new:
                self.moved[own] = new, moved.result

    def _move_transpose(self, node: Node, perm: Perm) -> None:
        """The node itself is kept for users that need the old layout."""
        (x,), y = node.given, node.result
        layout = self.proposals.layouts[y]
        wanted = layout.before_transpose(perm, x.type.shape)
        there, own = self.moved.get(x, (x, Layout.own(x.type.shape)))
        if own.order == wanted.order:
            b = self._builder(node, node)
            moved = there if own.shape == layout.shape else b.emit(Reshape(layout.shape), there)
        elif own.factors == wanted.factors:
            b = self._builder(node, node)
            moved = b.emit(Transpose(composed(inverse(own.perm), wanted.perm)), there)
        else:
            moved = _there(self._builder(node, node.after), y, layout)
        self.moved[y] = moved, layout

    def _lying_in(self, node: Node, value: Value, layout: Layout) -> Value:
        """An operand in the layout in which a node takes it; others may take the same."""
        there, own = self.moved.get(value, (value, None))
        b = Builder(self.function, node, name=value.name, origins=node.origins)
        if own is None or own.order != layout.order:
            key = value, layout.order
            if key not in self.made:
                self.made[key] = _there(b, value, layout)
            there = self.made[key]
        if there.type.shape == layout.shape:
            return there
        return b.emit(Reshape(layout.shape), there)

    def _builder(self, node: Node, before: Node | None) -> Builder:
        return Builder(
            self.function, before, name=node.name, origins=node.origins, predicate=node.predicate
        )


def _there(b: Builder, value: Value, layout: Layout) -> Value:
    """A value brought into a layout; of a constant, a view."""
    if isinstance(value, Constant) and value.type.quantization is None:
        data = value.data.reshape(layout.factors).transpose(layout.perm)
        return constant_like(b, value, data, value.type.with_shape(layout.shape))
    if layout.keeps_order:
        return b.emit(Reshape(layout.shape), value)
    if layout.factors != value.type.shape:
        value = b.emit(Reshape(layout.factors), value)
    return b.emit(Transpose(layout.perm), value)


def _back(b: Builder, value: Value, layout: Layout, shape: tuple[int, ...]) -> Value:
    """A value brought back from a layout into its own."""
    if layout.is_identity:
        return value
    if layout.keeps_order:
        return b.emit(Reshape(shape), value)
    value = b.emit(Transpose(inverse(layout.perm)), value)
    return value if value.type.shape == shape else b.emit(Reshape(shape), value)
