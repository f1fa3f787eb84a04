"""The table of importers: one function per ONNX op and since-version."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from afterglow.frontends.onnx.context import Imported, NodeContext

Results: TypeAlias = Imported | Sequence[Imported | None]
Importer: TypeAlias = Callable[[NodeContext], Results]

IMPORTERS: dict[tuple[str, str], list[tuple[int, Importer]]] = {}
"""(domain, op type) -> [(since version, function)], newest first."""


def onnx_op(*op_types: str, since: int = 1, domain: str = "") -> Callable[[Importer], Importer]:
    """Register a function for ops from opset `since` on, up to the next one registered.

    It returns the value of each output, or a single one; None for an output that nobody wants.
    """

    def register(function: Importer) -> Importer:
        for op_type in op_types:
            versions = IMPORTERS.setdefault((domain, op_type), [])
            versions.append((since, function))
            versions.sort(key=lambda version: -version[0])
        return function

    return register


def find_importer(domain: str, op_type: str, opset: int) -> Importer | None:
    """The function for an op as opset `opset` of its domain defines it."""
    for since, function in IMPORTERS.get((domain, op_type), []):
        if since <= opset:
            return function
    return None
