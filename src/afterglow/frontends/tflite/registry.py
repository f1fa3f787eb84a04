"""The table of importers of TFLite's ops, by their names in the schema such as `CONV_2D`.

An op has up to two importers: one for plain numbers, and one for quantized integers, which is asked
for where an operand or result is such. What only moves elements needs no second one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, TypeAlias, cast

from afterglow.frontends.common.movement import reshaped
from afterglow.frontends.definition.context import NodeContext
from afterglow.frontends.definition.dialect import Dialect, Importer, Results
from afterglow.frontends.definition.model import AttributeDef
from afterglow.frontends.tflite.node import OPERAND_TYPES, RESULT_TYPES, TfliteNode
from afterglow.graph import Value
from afterglow.ops.movement import Concat, slice_axis
from afterglow.support.errors import AfterglowError, UnsupportedError
from afterglow.types.dtype import DTYPES

if TYPE_CHECKING:
    from afterglow.frontends.definition.graph import GraphImporter
    from afterglow.frontends.definition.model import NodeDef

CUSTOM = "custom"
"""The domain of ops that are none of TFLite's own."""

INTERNAL = "afterglow"
"""The domain of what a file has not as ops: state, loops, other names of values."""

COMPLEX = "complex"
"""The domain under which the table has importers of builtin ops on complex numbers."""

QUANTIZED = "quantized"
"""The domain under which the table has importers of builtin ops on quantized integers."""

MOST_BITS = 16
"""Bits of quantized integers: wider ones are computed with as they are, whatever their scale."""

HYBRID = "hybrid"
"""The same of ops whose results are real numbers, although operands are quantized."""


class TfliteDialect(Dialect):
    """TFLite: builtin ops without a domain, custom ones in their own."""

    def __init__(self) -> None:
        super().__init__("tflite", TfliteNode)
        self.moving: set[str] = set()
        """Ops that only move elements, whatever these stand for."""

    def importer(self, graph: GraphImporter, node: NodeDef, version: int) -> Importer:
        """That of the op, for what its operands and results are."""
        if not node.domain and is_complex(node.attributes):
            return self._complex_importer(node, version)
        widest = 64 if node.op_type == "DEQUANTIZE" else MOST_BITS
        if not node.domain and is_quantized(node.attributes, widest):
            found = None
            if has_real_result(node.attributes):
                found = self.find(HYBRID, node.op_type, version)
            found = found or self.find(QUANTIZED, node.op_type, version)
            if found is not None:
                return found
            if node.op_type not in self.moving and self.knows("", node.op_type, version):
                raise UnsupportedError("it is not supported with quantized integers")
        return super().importer(graph, node, version)

    def _complex_importer(self, node: NodeDef, version: int) -> Importer:
        """That for complex numbers; what only moves elements moves each of both parts."""
        found = self.find(COMPLEX, node.op_type, version)
        if found is not None:
            return found
        moving = self.find("", node.op_type, version) if node.op_type in self.moving else None
        if moving is None:
            raise UnsupportedError("it is not supported with complex numbers")
        return partial(_by_parts, moving)

    def missing(self, domain: str, op_type: str, version: int) -> AfterglowError:
        """Custom ops are known to those who wrote them."""
        if domain == CUSTOM:
            return UnsupportedError(
                f"the custom op {op_type!r} is not known",
                help="define it with @afterglow.op, or replace it by builtin ops",
            )
        return super().missing(domain, op_type, version)


def _by_parts(importer: Importer, n: NodeContext) -> Results:
    """What an importer makes of the first parts, and of the second, side by side."""
    types = n.texts(OPERAND_TYPES, ())
    halves = []
    for index in (0, 1):
        operands = [
            part_of(n, value, index) if isinstance(value, Value) and type == "c64" else value
            for value, type in zip(n.operands, types, strict=True)
        ]
        results = importer(n.with_operands(*operands))
        halves.append(results if isinstance(results, Sequence) else [results])
    if "c64" not in n.texts(RESULT_TYPES, ()):
        return halves[0]  # as a shape is, which both parts have
    return [pair_of(n, *pair) for pair in zip(*halves, strict=True)]


def part_of(n: NodeContext, x: Value, index: int) -> Value:
    """One of both parts of complex numbers, which are along the last axis."""
    last = x.type.rank - 1
    return reshaped(n, n.emit(slice_axis(x.type, last, index, 1), x), x.type.shape[:last])


def pair_of(n: NodeContext, first: object, second: object) -> Value:
    """Complex numbers of both parts."""
    assert isinstance(first, Value)
    assert isinstance(second, Value)
    parts = [reshaped(n, each, (*each.type.shape, 1)) for each in (first, second)]
    return n.emit(Concat(first.type.rank), *parts)


def is_complex(attributes: Mapping[str, AttributeDef]) -> bool:
    """Whether an operand or result of a node with these attributes holds complex numbers."""
    found = (
        attributes[types].value for types in (OPERAND_TYPES, RESULT_TYPES) if types in attributes
    )
    return any("c64" in names for names in found)


def has_real_result(attributes: Mapping[str, AttributeDef]) -> bool:
    """Whether the first result of a node with these attributes holds floats."""
    names = attributes[RESULT_TYPES].value if RESULT_TYPES in attributes else ()
    return any(name in DTYPES and DTYPES[name].is_float for name in names[:1])


def is_quantized(attributes: Mapping[str, AttributeDef], most: int = MOST_BITS) -> bool:
    """Whether an operand or result of a node holds quantized integers of at most so many bits."""
    for letter, types in (("x", OPERAND_TYPES), ("y", RESULT_TYPES)):
        names = attributes[types].value if types in attributes else ()
        for number, name in enumerate(names):
            dtype = DTYPES.get(name)
            is_integer = dtype is not None and dtype.is_integer and dtype.bits <= most
            if is_integer and f"{letter}{number}.scale" in attributes:
                return True
    return False


TFLITE = TfliteDialect()


TfliteImporter: TypeAlias = Callable[[TfliteNode], Results]


def tflite_op(
    *ops: str, domain: str = "", moves: bool = False
) -> Callable[[TfliteImporter], TfliteImporter]:
    """Register a function for ops of a domain; `moves`, quantized integers pass as they are."""

    def register(function: TfliteImporter) -> TfliteImporter:
        TFLITE.op(*ops, domain=domain)(cast(Importer, function))
        if moves:
            TFLITE.moving.update(ops)
        return function

    return register


def complex_op(*ops: str) -> Callable[[TfliteImporter], TfliteImporter]:
    """Register a function for ops with operands or results that are complex numbers."""
    return tflite_op(*ops, domain=COMPLEX)


def quantized_op(*ops: str) -> Callable[[TfliteImporter], TfliteImporter]:
    """Register a function for ops with operands or results that are quantized integers."""
    return tflite_op(*ops, domain=QUANTIZED)
