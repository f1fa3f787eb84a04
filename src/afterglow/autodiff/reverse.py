"""Reverse-mode differentiation: from gradients of results to gradients of inputs.

The nodes between are visited last to first. Each adds to the gradients of its operands, by
`Op.gradient`. An op without a gradient rule is lowered, and the nodes of its lowering are visited
instead. Control flow has rules of its own, which differentiate what it carries. The results are
ordinary nodes, which can be differentiated again.
"""

from __future__ import annotations

from collections.abc import Sequence

from afterglow.autodiff.bodies import prepare
from afterglow.autodiff.branches import if_gradient
from afterglow.autodiff.cone import nodes_behind
from afterglow.autodiff.refusal import no_gradient
from afterglow.autodiff.rule import Context, Rule
from afterglow.autodiff.scan import scan_gradient
from afterglow.graph import Builder, Gradients, Node, Op, Value
from afterglow.graph.function import subgraphs_of
from afterglow.ops.control import If, Scan
from afterglow.ops.conversion import Cast
from afterglow.ops.elementwise import Add
from afterglow.ops.fill import Fill
from afterglow.ops.movement import Reshape
from afterglow.ops.reduction import ReduceSum
from afterglow.support.errors import UnsupportedError
from afterglow.types import TensorType

RULES: dict[type[Op], Rule] = {If: if_gradient, Scan: scan_gradient}
"""The gradient rules of ops that carry functions."""


def gradients(
    b: Builder,
    ys: Sequence[Value],
    xs: Sequence[Value],
    seeds: Sequence[Value] | None = None,
    fixed: Sequence[Value] = (),
) -> list[Value | None]:
    """Emit the gradients of `ys` with respect to each of `xs`; None where `ys` do not depend on it.

    `seeds` are the gradients of `ys` themselves, ones if not given: then it is their sum that is
    differentiated. Each of `xs` is a variable of its own: paths through another of them, or
    through one of `fixed`, do not count. The builder must emit behind all that `ys` depend on.
    """
    start = len(b.emitted)
    if seeds is None:
        seeds = [b.emit(Fill(y.type.shape, 1.0, y.type.dtype)) for y in ys]
    reverse = _Reverse(b, xs, fixed)
    reverse.run(ys, seeds)
    found = [reverse.sums.get(x) for x in xs]
    _drop_unused(b, start, [*found, *ys, *b.function.escaping()])  # lowered nodes may be these
    return found


class _Reverse:
    """One pass from results to variables; `sums` are the gradients so far."""

    def __init__(self, b: Builder, xs: Sequence[Value], fixed: Sequence[Value]) -> None:
        self.b = b
        self.sums: dict[Value, Value] = {}
        self._variables = {*xs}
        self._stops = {*xs, *fixed}
        self._varying = {x for x in xs if _has_gradient(x)}
        self._ys: Sequence[Value] = ()

    def run(self, ys: Sequence[Value], seeds: Sequence[Value]) -> None:
        """Propagate the gradients of results, the seeds, backwards."""
        self._ys = ys
        nodes = self._prepare(nodes_behind(ys, self._stops))
        for y, seed in zip(ys, seeds, strict=True):
            self._add(y, seed)
        self._visit_all(nodes)

    def _visit_all(self, nodes: Sequence[Node]) -> None:
        for node in reversed(nodes):
            self._visit(node)

    def _prepare(self, nodes: Sequence[Node]) -> list[Node]:
        """Note which results of nodes depend on variables; control flow may add nodes."""
        ready = []
        for node in nodes:
            for each in prepare(node, self._variables, self._varying):
                self._mark(each)
                ready.append(each)
        return ready

    def _mark(self, node: Node) -> None:
        """Note which results of the node depend on the variables."""
        if any(operand in self._varying for operand in node.given):
            results = (result for result in node.results if result not in self._stops)
            self._varying.update(result for result in results if _has_gradient(result))

    def _add(self, value: Value, grad: Value) -> None:
        """Add to the gradient of a value, if it depends on a variable."""
        if value not in self._varying or not grad.type.size:
            return
        grad = _fitted(self.b, grad, value.type)
        known = self.sums.get(value)
        self.sums[value] = grad if known is None else self.b.emit(Add(), known, grad)

    def _visit(self, node: Node) -> None:
        """Propagate the gradients of the results of a node to its operands."""
        grads = tuple(
            None if result in self._stops else self.sums.get(result) for result in node.results
        )
        if all(grad is None for grad in grads):
            return
        own = self._own_gradient(node, grads)
        if own is None:
            self._visit_lowering(node, grads)
            return
        for operand, grad in zip(node.operands, own, strict=False):
            if operand is not None and grad is not None:
                self._add(operand, grad)

    def _own_gradient(self, node: Node, grads: Gradients) -> Gradients | None:
        """The gradients by the op's own rule; None if it has none."""
        rule = RULES.get(type(node.op))
        if rule is not None:
            return rule(Context(self.b, self._varying, gradients), node, grads)
        if len(grads) == 1:
            return node.op.gradient(self.b, node.result, grads[0], *node.operands)
        return node.op.gradient(self.b, node.results, grads, *node.operands)

    def _visit_lowering(self, node: Node, grads: Gradients) -> None:
        """Lower the node, and visit the nodes of its lowering instead.

        Where that is control flow, it takes the place of the node, so that what its steps have
        computed is not computed again.
        """
        b = Builder(self.b.function, before=node, name=self.b.name, origins=node.origins)
        lowered = node.op.lower(b, *node.operands)
        if lowered is None:
            raise self._refusal(node)
        self.b.emitted.extend(b.emitted)
        inner = self._prepare(b.emitted)
        results = lowered if isinstance(lowered, tuple) else (lowered,)
        if any(subgraphs_of(simpler.op) for simpler in inner):
            self.b.function.supersede(node, results)
            self._visit_all(inner)
            return
        for result, grad in zip(results, grads, strict=True):
            if grad is not None:
                self._add(result, grad)
        try:
            self._visit_all(inner)
        except UnsupportedError:  # name the node that the caller knows
            raise self._refusal(node) from None

    def _refusal(self, node: Node) -> UnsupportedError:
        return no_gradient(node, self._ys, self._variables, self._varying)


def _has_gradient(value: Value) -> bool:
    """Whether the value holds floats, and any at all."""
    return value.type.dtype.is_float and value.type.size > 0


def _fitted(b: Builder, grad: Value, type: TensorType) -> Value:
    """A gradient of a broadcast operand, summed over the axes along which that was repeated."""
    if grad.type.dtype is not type.dtype:
        grad = b.emit(Cast(type.dtype), grad)
    if grad.type.shape == type.shape:
        return grad
    new = grad.type.rank - type.rank
    repeated = [
        axis
        for axis, extent in enumerate(grad.type.shape)
        if axis < new or type.shape[axis - new] != extent
    ]
    total = b.emit(ReduceSum(tuple(repeated), keepdims=False), grad)
    return total if total.type.shape == type.shape else b.emit(Reshape(type.shape), total)


def _drop_unused(b: Builder, start: int, kept: Sequence[Value | None]) -> None:
    """Erase the nodes emitted since `start` that lead to none of the values to keep."""
    for node in reversed(b.emitted[start:]):
        if node.function is None:
            continue
        is_used = any(result.use_count or result in kept for result in node.results)
        if not is_used:
            b.function.erase(node)
    b.emitted[start:] = [node for node in b.emitted[start:] if node.function is b.function]
