"""Building graphs: apply an op to operands, with the type rule checked at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from afterglow.graph.function import Function
from afterglow.graph.op import Op, result_types
from afterglow.graph.origins import Origins
from afterglow.graph.own import own_types
from afterglow.graph.printer import excerpt
from afterglow.graph.value import Constant, Node, Value
from afterglow.support.errors import CompileError, TypeRuleError
from afterglow.types import Array, TensorType
from afterglow.types.dtype import boolean
from afterglow.types.extent import UndecidedExtentError
from afterglow.types.later import LaterArray
from afterglow.types.tensor import ExtentError


class Builder:
    """Emits nodes into a function, in front of `before` or at its end.

    `name`, `origins` and `predicate` are what emitted nodes get unless `emit` says otherwise.
    """

    def __init__(
        self,
        function: Function,
        before: Node | None = None,
        *,
        name: str = "",
        origins: Origins = (),
        predicate: Value | None = None,
    ) -> None:
        self.function = function
        self.before = before
        self.name = name
        self.origins = origins
        self.predicate = predicate
        self.emitted: list[Node] = []

    @property
    def origin(self) -> str:
        """The first of its origins; empty if it has none."""
        return self.origins[0] if self.origins else ""

    def emit(self, op: Op, *operands: Value | None, name: str = "", origins: Origins = ()) -> Value:
        """Apply an op that has one result."""
        (result,) = self.emit_node(op, *operands, name=name, origins=origins).results
        return result

    def emit_all(
        self, op: Op, *operands: Value | None, name: str = "", origins: Origins = ()
    ) -> tuple[Value, ...]:
        """Apply an op that has any number of results."""
        return self.emit_node(op, *operands, name=name, origins=origins).results

    def emit_node(
        self, op: Op, *operands: Value | None, name: str = "", origins: Origins = ()
    ) -> Node:
        """Apply an op and return the node."""
        operands = _without_trailing_none(operands)
        origins = origins or self.origins
        base = name or self.name or op.mnemonic
        types = self._infer(op, operands, base, origins)
        names = [self.function.names.claim(base + _suffix(op, i, types)) for i in range(len(types))]
        node = Node(op, operands, types, names, origins)
        if self.predicate is not None:
            node.predicate = self.predicate
        self.function.insert(node, self.before)
        self.emitted.append(node)
        return node

    @contextmanager
    def when(self, predicate: Value) -> Iterator[Builder]:
        """Give emitted nodes a predicate: a boolean scalar that says when their results are needed.

        It is a hint, not control flow: where it is false, a backend may leave the nodes out, and
        their results are undefined. Take what is needed with `Where`. The innermost one counts.
        """
        if predicate.type != TensorType(boolean, ()):
            raise CompileError(
                f"a predicate must be bool[], got {predicate.type}",
                where=f"in function @{self.function.name}, value %{predicate.name}",
                help="reshape it to a scalar, or compute one from it: reduce_max, less, not",
            )
        outer, self.predicate = self.predicate, predicate
        try:
            yield self
        finally:
            self.predicate = outer

    def constant(self, data: Array | LaterArray, name: str = "constant") -> Constant:
        """Own an array in the function's module."""
        return self.function.module.constant(name, data)

    def _infer(
        self, op: Op, operands: tuple[Value | None, ...], name: str, origins: Origins
    ) -> tuple[TensorType, ...]:
        try:
            return infer_types(op, operands)
        except TypeRuleError as error:
            where = f"in function @{self.function.name}, node %{name}"
            kind = UndecidedExtentError if isinstance(error, UndecidedExtentError) else CompileError
            raise kind(
                f"{op.mnemonic}: {error.what}",
                where=where + (f" ({origins[0]})" if origins else ""),
                excerpt=[*excerpt(op, operands, name), *error.excerpt],
                help=error.help,
            ) from None


def reapply(node: Node, op: Op, *operands: Value | None) -> tuple[Value, ...]:
    """Let a node apply another op to other operands; return the results that this adds.

    The results that it has stay what they are to others: the op must give the same ones first.
    """
    function, known = node.function, node.results
    assert function is not None
    types = infer_types(op, operands)
    if types[: len(known)] != tuple(result.type for result in known):
        raise CompileError(f"{op.mnemonic} gives {types}, which %{node.name} is not")
    base = known[0].name if known else op.mnemonic
    added = tuple(Value(function.names.claim(base), type, node) for type in types[len(known) :])
    node.op, node.results = op, (*known, *added)
    node.set_operands(operands)
    return added


def infer_types(op: Op, operands: tuple[Value | None, ...]) -> tuple[TensorType, ...]:
    """Run the type rule of `op` on operands whose number it allows; else raise `TypeRuleError`."""
    least, most = op.required, len(op.operand_names)
    if len(operands) < least or (len(operands) > most and not op.variadic):
        wanted = f"{least} or more" if op.variadic else _range(least, most)
        raise TypeRuleError(f"takes {wanted} operands, got {len(operands)}")
    for name, operand in zip(op.operand_names[:least], operands, strict=False):
        if operand is None:
            raise TypeRuleError(f"operand {name} must be given")
    try:
        infer = own_types if op.own else _inferred
        return infer(op, [None if v is None else v.type for v in operands])
    except ExtentError as error:
        raise TypeRuleError(str(error)) from None


def _inferred(op: Op, operands: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
    return result_types(op.infer(*operands))


def _range(least: int, most: int) -> str:
    return str(least) if least == most else f"{least} to {most}"


def _suffix(op: Op, index: int, types: tuple[TensorType, ...]) -> str:
    if len(types) == 1:
        return ""
    return "." + (op.result_names[index] if len(op.result_names) == len(types) else str(index))


def _without_trailing_none(operands: tuple[Value | None, ...]) -> tuple[Value | None, ...]:
    end = len(operands)
    while end and operands[end - 1] is None:
        end -= 1
    return operands[:end]
