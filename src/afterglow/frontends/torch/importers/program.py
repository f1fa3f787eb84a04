"""Nodes that the translation of a program adds to the calls of its graph."""

from __future__ import annotations

from afterglow.frontends.common.branches import choice
from afterglow.frontends.common.control import loop
from afterglow.frontends.common.scan import scan
from afterglow.frontends.torch.node import TorchNode
from afterglow.frontends.torch.registry import PROGRAM, TORCH, aten
from afterglow.graph import Value


@aten("alias", namespace=PROGRAM)
def import_alias(n: TorchNode) -> Value:
    """A value that is returned under a further name."""
    return n[0]


TORCH.op("If", domain=PROGRAM)(choice)
TORCH.op("Loop", domain=PROGRAM)(loop)
TORCH.op("Scan", domain=PROGRAM)(scan)
