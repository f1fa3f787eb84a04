"""Compute narrow floats in f32."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np

from afterglow.graph import Builder, Constant, Function, Node, Op, Value
from afterglow.graph.builder import infer_types
from afterglow.graph.function import subgraphs_of
from afterglow.ops.conversion import Cast
from afterglow.ops.elementwise import BitCast
from afterglow.passes import Pass
from afterglow.support.errors import TypeRuleError
from afterglow.transforms.drop_dead import drop_dead_nodes
from afterglow.types import DType, TensorType
from afterglow.types.dtype import bf16, f16, f32

NARROW = (f16, bf16)
"""Storage types that are better not computed in."""


class WidenFloats(Pass):
    """What is f16 or bf16 inside of a function becomes f32: only what enters and leaves is rounded.

    Constants are widened with the rest, unless they are only moved (a table of embeddings), or are
    weights of what is computed in f32 already; so are caches in 16 bits. A cast
    to a narrow type that the model itself asks for rounds only what leaves the function, or what a
    body of If, Loop or Scan takes.
    """

    name = "widen-floats"

    def run(self, function: Function) -> bool:
        """See the class."""
        widener = _Widener(function)
        changed = False
        for node in list(function.nodes):
            changed |= widener.widen(node)
        if changed:
            drop_dead_nodes(function)
        return changed


class _Widener:
    """One run over one function: each narrow result becomes a cast of a wide one."""

    def __init__(self, function: Function) -> None:
        self.function = function
        self.constants: dict[Constant, Constant] = {}

    def widen(self, node: Node) -> bool:
        """Put a node that computes in f32 in the place of one that does not, if it can be."""
        if not _is_narrow(node):
            return False
        op = _wide_op(node.op)
        types = [None if v is None else _wide_type(v.type) for v in node.operands]
        wanted = tuple(_wide_type(result.type) for result in node.results)
        if _results(op, types) != wanted:
            return False
        b = Builder(self.function, node, origins=node.origins, predicate=node.predicate)
        operands = [None if v is None else self._wide(b, v) for v in node.operands]
        names = [result.name for result in node.results]
        new = b.emit_node(op, *operands, name=names[0])
        for old, result in zip(node.results, new.results, strict=True):
            narrow = result if old.type == result.type else b.emit(Cast(old.type.dtype), result)
            self.function.replace(old, narrow)
        self.function.erase(node)
        for name, result in zip(names, new.results, strict=True):
            self.function.rename(result, name)
        return True

    def _wide(self, b: Builder, value: Value) -> Value:
        """The value in f32: as it was before it was rounded, where it was computed so."""
        if value.type.dtype not in NARROW:
            return value
        if isinstance(value, Constant):
            return self._wide_constant(value)
        source = _unrounded(value)
        return b.emit(Cast(f32), value, name=f"{value.name}.f32") if source is None else source

    def _wide_constant(self, constant: Constant) -> Constant:
        if constant not in self.constants:
            data = constant.data.astype(np.float32)
            self.constants[constant] = self.function.module.constant(constant.name, data)
        return self.constants[constant]


def _is_narrow(node: Node) -> bool:
    """Whether the node computes with narrow floats, and may do so with wide ones."""
    if isinstance(node.op, BitCast) or subgraphs_of(node.op):
        return False
    if isinstance(node.op, Cast) and node.given[0].type.dtype is f32:
        return False
    narrow = [value for value in node.given if value.type.dtype in NARROW]
    if narrow and all(value in _stored(node) for value in narrow):
        return False
    made = [result for result in node.results if result.type.dtype in NARROW]
    if not made and all(isinstance(value, Constant) for value in narrow):
        return False
    if node.op.moves_only and narrow:
        return any(_unrounded(value) is not None for value in narrow)
    return bool(narrow or made)


def _stored(node: Node) -> list[Value | None]:
    """The operands whose storage type is the model's choice."""
    names = zip(node.op.operand_names, node.operands, strict=False)
    return [value for name, value in names if name in node.op.stored]


def _unrounded(value: Value) -> Value | None:
    """The f32 value that a narrow one is a cast of, if it is one."""
    producer = value.producer
    if producer is None or not isinstance(producer.op, Cast):
        return None
    (source,) = producer.given
    return source if source.type.dtype is f32 else None


def _wide_type(type: TensorType) -> TensorType:
    return type.with_dtype(f32) if type.dtype in NARROW else type


def _wide_op(op: Op) -> Op:
    """The op with f32 for every narrow type among its attributes."""
    values = {field.name: getattr(op, field.name) for field in fields(op)}  # type: ignore[arg-type]  # ops are dataclasses
    narrow = [name for name, v in values.items() if isinstance(v, DType) and v in NARROW]
    return replace(op, **dict.fromkeys(narrow, f32)) if narrow else op  # type: ignore[type-var]  # as above


def _results(op: Op, types: list[TensorType | None]) -> tuple[TensorType, ...] | None:
    """What the op gives for operands of these types; None if it does not take them."""
    operands = tuple(None if type is None else Value("", type) for type in types)
    try:
        return infer_types(op, operands)
    except TypeRuleError:
        return None
