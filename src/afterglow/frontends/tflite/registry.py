"""The table of importers of TFLite's ops, by their names in the schema such as `CONV_2D`.

An op has up to two importers: one for plain numbers, and one for quantized integers, which is asked
for where an operand or result is such. What only moves elements needs no second one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, TypeAlias, cast

from afterglow.frontends.definition.dialect import Dialect, Importer, Results
from afterglow.frontends.definition.model import AttributeDef
from afterglow.frontends.tflite.node import OPERAND_TYPES, RESULT_TYPES, TfliteNode
from afterglow.support.errors import AfterglowError, UnsupportedError
from afterglow.types.dtype import DTYPES

if TYPE_CHECKING:
    from afterglow.frontends.definition.graph import GraphImporter
    from afterglow.frontends.definition.model import NodeDef

CUSTOM = "custom"
"""The domain of ops that are none of TFLite's own."""

INTERNAL = "afterglow"
"""The domain of what a file has not as ops: state, loops, other names of values."""

QUANTIZED = "quantized"
"""The domain under which the table has importers of builtin ops on quantized integers."""


class TfliteDialect(Dialect):
    """TFLite: builtin ops without a domain, custom ones in their own."""

    def __init__(self) -> None:
        super().__init__("tflite", TfliteNode)
        self.moving: set[str] = set()
        """Ops that only move elements, whatever these stand for."""

    def importer(self, graph: GraphImporter, node: NodeDef, version: int) -> Importer:
        """That of the op, for what its operands and results are."""
        if not node.domain and is_quantized(node.attributes):
            found = self.find(QUANTIZED, node.op_type, version)
            if found is not None:
                return found
            if node.op_type not in self.moving and self.knows("", node.op_type, version):
                raise UnsupportedError("it is not supported with quantized integers")
        return super().importer(graph, node, version)

    def missing(self, domain: str, op_type: str, version: int) -> AfterglowError:
        """Custom ops are known to those who wrote them."""
        if domain == CUSTOM:
            return UnsupportedError(
                f"the custom op {op_type!r} is not known",
                help="define it with @afterglow.op, or replace it by builtin ops",
            )
        return super().missing(domain, op_type, version)


def is_quantized(attributes: Mapping[str, AttributeDef]) -> bool:
    """Whether an operand or result of a node with these attributes holds quantized integers."""
    for letter, types in (("x", OPERAND_TYPES), ("y", RESULT_TYPES)):
        names = attributes[types].value if types in attributes else ()
        for number, name in enumerate(names):
            is_integer = name in DTYPES and DTYPES[name].is_integer
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


def quantized_op(*ops: str) -> Callable[[TfliteImporter], TfliteImporter]:
    """Register a function for ops with operands or results that are quantized integers."""
    return tflite_op(*ops, domain=QUANTIZED)
