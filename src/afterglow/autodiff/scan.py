"""The gradient of a scan: a scan in the other direction, over what the steps began with.

Its body is that of the forward scan, differentiated. The states before each step, and results of
nodes that are worth keeping, are further results of the forward scan; what is cheap is computed
again. Gradients of captured values are sums over the steps: see `StepSums`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from afterglow.autodiff.forward_parts import all_parts
from afterglow.autodiff.rule import Context, emit_if_missing, erase_unused, inputs_behind
from afterglow.autodiff.step_sums import StepSums
from afterglow.graph import Builder, Gradients, Node, Placeholder, Subgraph, Value
from afterglow.graph.function import Cloner
from afterglow.ops.control import Scan
from afterglow.types.extent import is_ranged


def scan_gradient(c: Context, node: Node, grads: Gradients) -> Gradients:
    """Emit the gradients of what a scan is given."""
    assert isinstance(node.op, Scan)
    if not is_ranged(node.op.length) and node.op.length == 0:
        return grads[: node.op.carried]
    return _ScanGradient(c, node, node.op, grads).emit()


class _Roles:
    """What of a scan takes part: inputs and outputs of the body, by number.

    `varying` inputs depend on variables. The gradients of `carried` values go from step to step;
    those of `outputs`, the carried ones first, are known when a step is differentiated.
    """

    def __init__(self, c: Context, node: Node, op: Scan, grads: Gradients) -> None:
        body, behind = op.body.function, inputs_behind(op.body.function)
        reach = [behind.get(output.value, set()) for output in body.outputs]
        states = range(op.carried)
        given = {i for i, value in enumerate(node.given) if value in c.varying}
        asked = {i for i, grad in enumerate(grads) if grad is not None}
        given = _grown(given, lambda found: (j for j in states if found & reach[j]))
        asked = _grown(asked, lambda found: (j for i in found for j in states if j in reach[i]))
        self.varying = [i for i in sorted(given) if body.inputs[i].type.dtype.is_float]
        self.carried = [j for j in states if j in asked and j in self.varying]
        self.outputs = [*self.carried, *(i for i in sorted(asked) if i >= op.carried)]


def _grown(start: set[int], more: Callable[[set[int]], Iterable[int]]) -> set[int]:
    """A set with all that follows from it."""
    found = {*start}
    while not found.issuperset(new := {*more(found)}):
        found |= new
    return found


class _ScanGradient:
    """The backward scan of a forward one, while it is made."""

    def __init__(self, c: Context, node: Node, op: Scan, grads: Gradients) -> None:
        self.c, self.node, self.op, self.grads = c, node, op, grads
        self.roles = _Roles(c, node, op, grads)
        self.forward = op.body.function
        assert node.function is not None
        self.body = node.function.module.new_function(f"{self.forward.name}.gradient")
        self.inner = Builder(self.body, origins=node.origins)
        self.copies = Cloner(self.forward, self.body)
        self.seeds: dict[Value, Value] = {}
        """Inputs of the body that are parts of a gradient, and that gradient."""
        self.kept: dict[Value, Value] = {}
        """Inputs of the body that are values of the forward one."""
        self.captured: dict[Value, Value] = {}

    def emit(self) -> Gradients:
        """Make the body, and scan with it."""
        op, roles = self.op, self.roles
        recomputed = self._copy_forward()
        first = {j: self.body.input("gradient", self.forward.inputs[j].type) for j in roles.carried}
        found = self._differentiate(first)
        parts = [i for i in found if op.carried <= i < op.carried + op.scanned]
        shared = [i for i in found if i >= op.carried + op.scanned]
        sums = StepSums(self.inner, op.length, self._changes(), [found[i] for i in shared])
        after = [emit_if_missing(self.inner, found.get(j), v.type) for j, v in first.items()]
        self._return([*after, *sums.summed, *(found[i] for i in parts), *sums.stacked])
        self._keep(recomputed)
        last, stacked = self._scan([*first.values(), *sums.running])
        totals = sums.totals(self.c.b, last[len(first) :], stacked[len(parts) :])
        by_operand = dict(zip((*first, *shared), (*last[: len(first)], *totals), strict=True))
        by_operand.update(zip(parts, stacked, strict=False))
        return tuple(by_operand.get(i) for i in range(len(self.node.given)))

    def _copy_forward(self) -> list[Node]:
        """Copy the nodes of the forward body, which take what each step began with."""
        pairs = zip(self.forward.inputs, self.node.given, strict=True)
        for index, (own, given) in enumerate(pairs):
            copy = self.body.input(own.name, own.type)
            self.copies.values[own] = copy
            if index < self.op.carried + self.op.scanned:
                self.kept[copy] = own
            else:
                self.captured[copy] = given
        for node in self.forward.nodes:
            self.copies.copy(node)
        return [*self.body.nodes]

    def _differentiate(self, first: dict[int, Placeholder]) -> dict[int, Value]:
        """The gradients of inputs of the body by number, where there are any."""
        seeds = [first[i] if i in first else self._seed(i) for i in self.roles.outputs]
        returned = [self.forward.outputs[i].value for i in self.roles.outputs]
        ys = [self.copies.copy_of(value) for value in returned]
        xs = [self.body.inputs[i] for i in self.roles.varying]
        grads = self.c.differentiate(self.inner, ys, xs, seeds)
        pairs = zip(self.roles.varying, grads, strict=True)
        return {i: grad for i, grad in pairs if grad is not None}

    def _seed(self, index: int) -> Value:
        """The gradient of one part of a stacked result."""
        grad = self.grads[index]
        assert grad is not None
        seed = self.body.input("seed", self.forward.outputs[index].value.type)
        self.seeds[seed] = grad
        return seed

    def _changes(self) -> Callable[[Value], bool]:
        """Whether a value of the body differs from step to step."""
        behind = inputs_behind(self.body)
        fixed = {i for i, value in enumerate(self.body.inputs) if value in self.captured}
        return lambda value: not behind.get(value, set()) <= fixed

    def _return(self, results: Sequence[Value]) -> None:
        for index, value in enumerate(results):
            self.body.output(f"result_{index}", value)
        erase_unused(self.body)

    def _is_read(self, value: Value) -> bool:
        return value.use_count > 0 or value in {*self.body.escaping()}

    def _keep(self, recomputed: Sequence[Node]) -> None:
        """Take from the forward scan what is not cheap to compute again."""
        originals = {copy: value for value, copy in self.copies.values.items()}
        changes = self._changes()
        for node in reversed(recomputed):
            is_cheap = node.op.elementwise or node.op.moves_only
            if node.function is None or is_cheap or not any(map(changes, node.results)):
                continue
            for result in node.results:
                part = self.body.input(result.name, result.type)
                self.body.replace(result, part)
                self.kept[part] = originals[result]
            erase_unused(self.body)

    def _scan(self, carried: Sequence[Placeholder]) -> tuple[Sequence[Value], Sequence[Value]]:
        """Emit the scan; its last carried values, and all parts of its other results."""
        b, body, count = self.c.b, self.body, len(carried)
        stacked = [output.value for output in body.outputs[count:]]
        known = {*self.seeds, *self.kept}
        body.outputs[count:] = [o for o in body.outputs[count:] if o.value not in known]
        read = [value for value in body.inputs if self._is_read(value)]
        parts = [value for value in read if value in known]
        captured = [value for value in read if value in self.captured]
        body.inputs = [*carried, *parts, *captured]
        whole = {**self.seeds, **self._whole([*parts, *stacked])}
        grads = [self.grads[j] for j in self.roles.carried]
        grads.extend([None] * (count - len(grads)))
        results = b.emit_all(
            Scan(Subgraph(body), self.op.length, count, len(parts), not self.op.reverse),
            *(emit_if_missing(b, grad, to.type) for grad, to in zip(grads, carried, strict=True)),
            *(whole[part] for part in parts),
            *(self.captured[value] for value in captured),
        )
        rest = iter(results[count:])
        return results[:count], [whole[v] if v in known else next(rest) for v in stacked]

    def _whole(self, values: Sequence[Value]) -> dict[Value, Value]:
        """All parts of those inputs of the body that are values of the forward one."""
        kept = [value for value in dict.fromkeys(values) if value in self.kept]
        parts = all_parts(self.c.b, self.node, [self.kept[value] for value in kept])
        return dict(zip(kept, parts, strict=True))
