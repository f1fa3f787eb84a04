"""Constant folding: evaluate at compile time what depends on constants only."""

from __future__ import annotations

import numpy as np

from afterglow.graph import Constant, Function, Node, Value, run_op
from afterglow.graph.function import subgraphs_of
from afterglow.passes import Pass
from afterglow.support.errors import AfterglowError
from afterglow.types import Array
from afterglow.types.extent import largest

FREE_BYTES = 1 << 20
"""Results up to this size always become constants."""
FREE_GROWTH = 2
"""Larger results become constants if they have at most this many times their operands' elements."""
SMALL_PART = 16
"""A view of less than 1 / SMALL_PART of an array is copied, so that the array can be freed."""


class FoldConstants(Pass):
    """Replace nodes whose operands are constants by constants; drop constants no longer used.

    Results that would make the program much larger (an expansion, a tile, a pad) are not folded,
    nor those whose evaluation fails: that error is raised when they run. Dequantizations are
    folded only if `dequantize` is set: fused ops may take the quantized weights.
    """

    name = "fold-constants"

    def __init__(self, *, dequantize: bool = False) -> None:
        self.dequantize = dequantize

    def run(self, function: Function) -> bool:
        """See the class."""
        folder = _Folder(function, self.dequantize)
        changed = False
        for node in function.nodes:
            changed |= folder.fold(node)
        return changed


class _Folder:
    """One run over one function."""

    def __init__(self, function: Function, dequantize: bool) -> None:
        self.function = function
        self.dequantize = dequantize
        self.module = function.module
        functions = self.module.functions.values()
        self.escaping = {id(value) for f in functions for value in f.escaping()}

    def fold(self, node: Node) -> bool:
        """Replace the node by its results, if they are known."""
        if not _is_foldable(node) or (node.op.dequantizes and not self.dequantize):
            return False
        results = _results(node)
        if results is None:
            return False
        for old, array in zip(node.results, results, strict=True):
            if old.use_count or id(old) in self.escaping:
                new = self.module.constant(old.name, _compact(array), old.type)
                self.function.replace(old, new)
                if id(old) in self.escaping:
                    self.escaping.add(id(new))
        operands = node.given
        self.function.erase(node)
        self._forget_unused(operands)
        return True

    def _forget_unused(self, values: list[Value]) -> None:
        for value in dict.fromkeys(values):
            if (
                isinstance(value, Constant)
                and not value.use_count
                and id(value) not in self.escaping
            ):
                self.module.erase_constant(value)


def _is_foldable(node: Node) -> bool:
    return (
        node.op.pure
        and all(isinstance(operand, Constant) for operand in node.given)
        and not subgraphs_of(node.op)
        and not node.is_ranged
        and not grows(node)
    )


def grows(node: Node) -> bool:
    """Whether the results as constants would make the program much larger."""
    elements = sum(largest(result.type.size) for result in node.results)
    large = sum(result.type.nbytes for result in node.results) > FREE_BYTES
    given = sum(largest(operand.type.size) for operand in node.given)
    return large and elements > FREE_GROWTH * given


def _results(node: Node) -> tuple[Array, ...] | None:
    operands = [
        operand.data if isinstance(operand, Constant) else None for operand in node.operands
    ]
    try:
        return run_op(node.op, operands, [result.type for result in node.results])
    except (AfterglowError, IndexError, MemoryError):
        return None


def _compact(array: Array) -> Array:
    base = array.base
    kept = base.nbytes if isinstance(base, np.ndarray) else 0
    return array.copy() if array.nbytes * SMALL_PART < kept else array
