"""Store weights in 16 bits where reading them is the bottleneck."""

from __future__ import annotations

import ml_dtypes
import numpy as np

from afterglow.graph import Builder, Constant, Function, Module, Node
from afterglow.graph.builder import infer_types
from afterglow.ops.conversion import Cast
from afterglow.passes import Pass
from afterglow.types import Array, DType
from afterglow.types.dtype import bf16, f16, f32
from afterglow.types.extent import largest

MOST_USES = {bf16: 32, f16: 4}
"""Products that an element serves each time it is read, up to which it is not slower to widen it.

bf16 is widened by what multiplication leaves idle; more uses leave f32 to algorithms that save
multiplications. f16 takes instructions of its own, which must be outweighed by memory.
"""
LEAST_SIZE = 1 << 14
"""Weights with fewer elements are not narrowed: they fit in a cache near the core."""


class NarrowWeights(Pass):
    """Weights of type f32 are rounded once, to nearest, and stored in f16 or bf16.

    A constant is, if all who read it take it as a weight (`Op.weight_uses`) and are bound by its
    memory; with `every`, whatever they are bound by. One with a number that is too large for the
    type stays as it is. Works on the module, from main.
    """

    name = "narrow-weights"

    def __init__(self, dtype: DType, *, every: bool = False) -> None:
        self.dtype = dtype
        self.every = every

    def run(self, function: Function) -> bool:
        """See the class."""
        module = function.module
        if function is not module.main:
            return False
        escaping = {id(value) for f in module.functions.values() for value in f.escaping()}
        chosen = [
            constant
            for constant in module.constants.values()
            if constant.use_count and id(constant) not in escaping and self._is_chosen(constant)
        ]
        for constant in chosen:
            _replace(module, constant, constant.data.astype(self.dtype.numpy))
        return bool(chosen)

    def _is_chosen(self, constant: Constant) -> bool:
        if constant.type.dtype is not f32 or not constant.type.size:
            return False
        uses = [_uses_of_element(node, index) for node, index in constant.uses]
        known = [count for count in uses if count is not None]
        if len(known) < len(uses):
            return False
        pays = max(known) <= MOST_USES[self.dtype] and constant.type.size >= LEAST_SIZE
        return (pays or self.every) and _fits(constant.data, self.dtype)


def _uses_of_element(node: Node, index: int) -> int | None:
    """The uses of an element each time it is read; None if the operand is not a weight there."""
    types = [None if operand is None else operand.type for operand in node.operands]
    names = dict(enumerate(node.op.operand_names))  # a predicate is not an operand, its index is -1
    uses = node.op.weight_uses(types).get(names.get(index, ""))
    return None if uses is None else largest(uses)


def _fits(data: Array, dtype: DType) -> bool:
    """Whether no number becomes infinite."""
    largest = float(ml_dtypes.finfo(dtype.numpy).max)  # type: ignore[no-untyped-call]  # ships no types
    return not bool(np.any(np.abs(data) > largest))


def _replace(module: Module, weight: Constant, data: Array) -> None:
    """Replace a constant by one with other elements, under the same name."""
    module.erase_constant(weight)
    narrow = module.constant(weight.name, data)
    for node, index in weight.uses:
        node.set_operand(index, narrow)
    for node in narrow.users:
        (type,) = infer_types(node.op, tuple(node.operands))[:1]
        if type != node.results[0].type:
            _widen_result(node)


def _widen_result(node: Node) -> None:
    """Cast a result back whose type follows that of its operand."""
    function, name = node.function, node.name
    assert function is not None
    b = Builder(function, node, origins=node.origins, predicate=node.predicate)
    narrow = b.emit(node.op, *node.operands, name=f"{name}.stored")
    wide = b.emit(Cast(node.result.type.dtype), narrow)
    function.substitute(node, wide)
