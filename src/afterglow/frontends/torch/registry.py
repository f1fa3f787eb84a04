"""The table of importers of PyTorch's ops, by their names in ATen such as `add.Tensor`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar, cast

from afterglow.frontends.definition.dialect import Dialect, Importer, Results
from afterglow.frontends.definition.model import NodeDef
from afterglow.frontends.torch.node import PLACE, TorchNode

PROGRAM = "program"
"""The namespace of nodes that the translation of a program adds to the calls of its graph."""

_CONTROL = {"If": "cond", "Loop": "while_loop", "Scan": "scan", "alias": "alias"}
"""What PyTorch calls them."""


class TorchDialect(Dialect):
    """PyTorch: ops are named with their namespaces, and nodes know the line they come from."""

    def qualified(self, domain: str, op_type: str) -> str:
        """The full name of an op, such as `aten::add.Tensor`."""
        return f"{domain}::{op_type}" if domain != PROGRAM else f"torch.{_CONTROL[op_type]}"

    def place(self, node: NodeDef) -> str:
        """The line of the user's program, such as `model.py:12`."""
        found = node.attributes.get(PLACE)
        return "" if found is None else str(found.value)


TORCH = TorchDialect("torch", TorchNode)
"""Domains are the namespaces of ops: `aten`, `prims`, `_operator` for arithmetic of sizes, …"""


TorchImporterT = TypeVar("TorchImporterT", bound=Callable[[TorchNode], Results])


def aten(*ops: str, namespace: str = "aten") -> Callable[[TorchImporterT], TorchImporterT]:
    """Register a function for ops of a namespace, each with its overload: `add.Tensor`.

    Of ops of PyTorch, the overload is `default` if none is named.
    """
    has_overloads = namespace in ("aten", "prims")
    full = [f"{op}.default" if has_overloads and "." not in op else op for op in ops]

    def register(function: TorchImporterT) -> TorchImporterT:
        TORCH.op(*full, domain=namespace)(cast(Importer, function))
        return function

    return register
