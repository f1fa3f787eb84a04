"""Conversion of a function of f32 to one that computes with floats of 16 bits where it may."""

from __future__ import annotations

from afterglow.graph import Builder, Constant, Function, Node, Value
from afterglow.ops.conversion import Cast
from afterglow.passes import Pass
from afterglow.quantization.mixed_precision import MixedPrecision, choose_halves
from afterglow.types import DType
from afterglow.types.dtype import f32


class ConvertFloats(Pass):
    """Nodes that may compute in a 16-bit type do, between casts; their constants are rounded once.

    Inputs, outputs and state keep their types, and so do bodies of loops and branches. Casts that
    cancel, or that are equal, are left to later passes.
    """

    name = "convert-floats"

    def __init__(
        self,
        dtype: DType,
        wanted: MixedPrecision = MixedPrecision(),  # noqa: B008  a frozen value
        *,
        whole: bool = True,
    ) -> None:
        self.dtype = dtype
        self.wanted = wanted
        self.whole = whole
        """Whether all of a model is converted at once: then all that is named must be there."""

    def run(self, function: Function) -> bool:
        """See the class."""
        if function is not function.module.main:
            return False
        if self.whole:
            self.wanted.check(list(function.nodes))
        chosen = choose_halves(function, self.dtype, self.wanted)
        rewriter = _Rewriter(function, self.dtype)
        for node in list(function.nodes):
            if node in chosen.nodes:
                rewriter.convert(node)
            elif node in chosen.weights:
                rewriter.store_weights(node)
        return bool(chosen.nodes or chosen.weights)


class _Rewriter:
    """Puts nodes of a function in 16 bits, one by one."""

    def __init__(self, function: Function, dtype: DType) -> None:
        self.function = function
        self.dtype = dtype
        self.constants: dict[Constant, Constant] = {}

    def convert(self, node: Node) -> None:
        """op(x…)  ->  cast(op(cast(x)…))."""
        b = Builder(self.function, node, origins=node.origins, predicate=node.predicate)
        operands = [None if v is None else self._narrow(b, v) for v in node.operands]
        names = [result.name for result in node.results]
        new = b.emit_node(node.op, *operands, name=names[0])
        for old, result in zip(node.results, new.results, strict=True):
            wide = result
            if old.type.dtype is f32:
                wide = b.emit(Cast(f32), result, name=f"{old.name}.wide")
            self.function.replace(old, wide)
        self.function.erase(node)
        for name, result in zip(names, new.results, strict=True):
            self.function.rename(result, name)

    def store_weights(self, node: Node) -> None:
        """Round the constants that a node takes as weights."""
        types = [None if operand is None else operand.type for operand in node.operands]
        weights = node.op.weight_uses(types)
        for index, name in enumerate(node.op.operand_names[: len(node.operands)]):
            value = node.operands[index]
            if name in weights and isinstance(value, Constant) and value.type.dtype is f32:
                node.set_operand(index, self._stored(value))

    def _narrow(self, b: Builder, value: Value) -> Value:
        if value.type.dtype is not f32:
            return value
        if isinstance(value, Constant):
            return self._stored(value)
        return b.emit(Cast(self.dtype), value, name=f"{value.name}.{self.dtype}")

    def _stored(self, constant: Constant) -> Constant:
        if constant not in self.constants:
            data = constant.data.astype(self.dtype.numpy)
            name = f"{constant.name}.{self.dtype}"
            self.constants[constant] = self.function.module.constant(name, data)
        return self.constants[constant]
