"""Which ops of a program are taken apart before it is imported: those without an importer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch._decomp import decomposition_table

from afterglow.frontends.torch.fused_layers import FUSED_LAYERS
from afterglow.frontends.torch.importers import TORCH


def decompositions() -> dict[torch._ops.OperatorBase, Callable[..., Any]]:
    """What takes ops apart that have no importer: PyTorch's own tables, and ours.

    So an op is kept whole by giving it an importer: attention stays attention, norms stay norms.
    """
    table = dict(torch.export.default_decompositions().items()) | FUSED_LAYERS
    for op, function in decomposition_table.items():
        table.setdefault(op, function)
    return {op: function for op, function in table.items() if not is_imported(op)}


def is_imported(op: Any) -> bool:
    """Whether there is an importer for an op."""
    return TORCH.knows(*qualified_name(op), 1)


def qualified_name(target: Any) -> tuple[str, str]:
    """The namespace of what a graph calls, and its name with the overload."""
    if isinstance(target, torch._ops.OpOverload):
        return target.namespace, f"{target._opname}.{target._overloadname}"
    if isinstance(target, torch._ops.HigherOrderOperator):
        return target.namespace, target._name
    return str(target.__module__), str(target.__name__)
