"""The table of importers of PyTorch's ops, by their names in ATen such as `add.Tensor`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar, cast

from afterglow.frontends.definition.context import ComplexParts, NodeContext
from afterglow.frontends.definition.dialect import Dialect, Importer, Results
from afterglow.frontends.definition.model import NodeDef
from afterglow.frontends.torch.node import PLACE, RESULTS, TorchNode
from afterglow.types.dtype import DTYPES, Kind

if TYPE_CHECKING:
    from afterglow.frontends.definition.graph import GraphImporter

PROGRAM = "program"
"""The namespace of nodes that the translation of a program adds to the calls of its graph."""

COMPLEX = "complex "
"""Before the namespace of ops as they are for complex numbers."""

_CONTROL = {"If": "cond", "Loop": "while_loop", "Scan": "scan", "alias": "alias"}
"""What PyTorch calls them."""


class TorchDialect(Dialect):
    """PyTorch: ops are named with their namespaces, and nodes know the line they come from."""

    def qualified(self, domain: str, op_type: str) -> str:
        """The full name of an op, such as `aten::add.Tensor`."""
        return f"{domain}::{op_type}" if domain != PROGRAM else f"torch.{_CONTROL[op_type]}"

    def importer(self, graph: GraphImporter, node: NodeDef, version: int) -> Importer:
        """By what the operands are: some ops have another importer for complex numbers."""
        real = super().importer(graph, node, version)
        other = self.find(COMPLEX + node.domain, node.op_type, version)
        if other is None:
            return real
        return lambda n: (other if _has_complex(n) else real)(n)

    def place(self, node: NodeDef) -> str:
        """The line of the user's program, such as `model.py:12`."""
        found = node.attributes.get(PLACE)
        return "" if found is None else str(found.value)


def _has_complex(n: NodeContext) -> bool:
    """Whether an operand is complex, or a result."""
    results = (DTYPES.get(name) for name in n.attribute(RESULTS, ()))
    made = any(dtype is not None and dtype.kind is Kind.COMPLEX for dtype in results)
    return made or any(isinstance(operand, ComplexParts) for operand in n.operands)


TORCH = TorchDialect("torch", TorchNode)
"""Domains are the namespaces of ops: `aten`, `prims`, `_operator` for arithmetic of sizes, …"""


TorchImporterT = TypeVar("TorchImporterT", bound=Callable[[TorchNode], Results])


def aten(*ops: str, namespace: str = "aten") -> Callable[[TorchImporterT], TorchImporterT]:
    """Register a function for ops of a namespace, each with its overload: `add.Tensor`.

    Of ops of PyTorch, the overload is `default` if none is named.
    """
    has_overloads = namespace.removeprefix(COMPLEX) in ("aten", "prims")
    full = [f"{op}.default" if has_overloads and "." not in op else op for op in ops]

    def register(function: TorchImporterT) -> TorchImporterT:
        TORCH.op(*full, domain=namespace)(cast(Importer, function))
        return function

    return register
