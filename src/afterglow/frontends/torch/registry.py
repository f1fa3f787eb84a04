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
    """Register a function for ops of a namespace, each with its overload: `add.Tensor`.

    Of ops of PyTorch, the overload is `default` if none is named.
    """
    has_overloads = namespace in ("aten", "prims")
    full = [f"{op}.default" if has_overloads and "." not in op else op for op in ops]

    def register(function: ImporterT) -> ImporterT:
        TORCH.op(*full, domain=namespace)(cast(Importer, function))
        return function

    return register
