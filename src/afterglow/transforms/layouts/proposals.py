"""Propose layouts for values: those that transposes above or below would give them.

Each is carried through every node that can work there: down to what takes its result, then up to
what makes its operands, and once more down from those.
"""

from __future__ import annotations

from afterglow.graph import Function, Node, Value
from afterglow.transforms.layouts.layout import Layout
from afterglow.transforms.layouts.moved import (
    Moved,
    is_pointwise,
    moved_by_operand,
    moved_by_result,
    transposition,
)
from afterglow.transforms.layouts.permutations import Perm, composed, inverse, keeps_order
from afterglow.types.extent import largest


class Proposals:
    """For each value at most one other layout, and how its node would work there."""

    def __init__(self, function: Function) -> None:
        self.layouts: dict[Value, Layout] = {}
        self.moves: dict[Value, Moved] = {}
        self.eager: set[Value] = set()
        """Values that should move even if nothing is gained: what made them can go on with them."""
        nodes = [node for node in function.nodes if _is_free(node)]
        for node in nodes:
            self._propose_below(node, pass_on=False)
        for node in reversed(nodes):
            self._propose_above(node)
        for node in nodes:
            self._propose_below(node, pass_on=True)
        for node in nodes:
            if transposition(node) is not None and not self._is_followed(node.result):
                self.layouts.pop(node.result, None)

    def _has(self, node: Node) -> bool:
        return node.results[0] in self.layouts or node.results[0] in self.moves

    def _is_followed(self, value: Value) -> bool:
        """Whether any user would take the value in the layout proposed for it."""
        return any(
            index >= 0
            and (moved := self.moves.get(user.results[0])) is not None
            and moved.operands[index] is not None
            for user, index in value.uses
        )

    def _add(self, node: Node, moved: Moved) -> None:
        self.moves[node.results[0]] = moved
        if not moved.result.is_identity:
            self.layouts[node.result] = moved.result

    def _propose_below(self, node: Node, *, pass_on: bool) -> None:
        """What the operands would give the result."""
        if self._has(node):
            return
        perm = transposition(node)
        if perm is not None:
            self._propose_transposed(node, perm, pass_on=pass_on)
            return
        known = [(i, v) for i, v in enumerate(node.operands) if v is not None and v in self.layouts]
        for index, value in sorted(known, key=lambda item: -largest(item[1].type.size)):
            moved = moved_by_operand(node, index, self.layouts[value])
            if moved is not None:
                self._add(node, moved)
                if value in self.eager and is_pointwise(node):
                    self.eager.add(node.results[0])
                return

    def _propose_transposed(self, node: Node, perm: Perm, *, pass_on: bool) -> None:
        """The operand itself, or what was proposed for it, is the result in another layout.

        If something was proposed for it, the nodes below are asked first.
        """
        (x,) = node.given
        shape = node.result.type.shape
        pass_on |= keeps_order(perm, x.type.shape)
        if x not in self.layouts:
            layout = Layout(shape, inverse(perm))
            self.eager.add(node.result)
        elif pass_on and self.layouts[x].factors == x.type.shape:
            layout = Layout(shape, inverse(composed(inverse(self.layouts[x].perm), perm)))
        else:
            return
        if not layout.is_identity:
            self.layouts[node.result] = layout

    def _propose_above(self, node: Node) -> None:
        """What the users would have the result in."""
        if self._has(node) or node.op.results_along_axis:
            return
        for user, index in node.result.uses:
            layout = self._wanted(node.result, user, index)
            if layout is None or layout.is_identity:
                continue
            if transposition(node) is not None:
                self.layouts[node.result] = layout
                return
            moved = moved_by_result(node, layout)
            if moved is not None:
                self._add(node, moved)
                return

    def _wanted(self, value: Value, user: Node, index: int) -> Layout | None:
        if index < 0:
            return None
        perm = transposition(user)
        if perm is not None:
            return Layout(value.type.shape, perm)
        moved = self.moves.get(user.results[0])
        layout = None if moved is None else moved.operands[index]
        if layout is None or layout.factors == value.type.shape:
            return layout
        return layout.carried(value.type.shape)


def _is_free(node: Node) -> bool:
    """Whether the node may be replaced by one that works in another layout."""
    if len(node.results) != 1 and not node.op.results_along_axis:
        return False
    if not node.op.pure or not node.results[0].type.nbytes:
        return False
    types = [value.type for value in (*node.given, *node.results)]
    return all(t.quantization is None or t.quantization.axis is None for t in types)
