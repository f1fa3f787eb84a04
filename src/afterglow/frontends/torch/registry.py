"""The table of importers of PyTorch's ops, by their names in ATen such as `add.Tensor`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias, TypeVar, cast

from afterglow.frontends.definition.dialect import Dialect, Importer, Results
from afterglow.frontends.torch.node import TorchNode

TORCH = Dialect("torch", TorchNode)
"""Domains are the namespaces of ops: `aten`, `prims`, `_operator` for arithmetic of sizes, …"""


TorchImporter: TypeAlias = Callable[[TorchNode], Results]
ImporterT = TypeVar("ImporterT", bound=TorchImporter)


def aten(*ops: str, namespace: str = "aten") -> Callable[[ImporterT], ImporterT]:
    """Register a function for ops of a namespace, each with its overload: `add.Tensor`."""

    def register(function: ImporterT) -> ImporterT:
        TORCH.op(*ops, domain=namespace)(cast(Importer, function))
        return function

    return register
