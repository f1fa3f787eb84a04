"""Nodes that the translation of a program adds to the calls of its graph."""

from __future__ import annotations

from afterglow.frontends.torch.node import TorchNode
from afterglow.frontends.torch.registry import aten
from afterglow.graph import Value
from afterglow.ops.activation import Relu
from afterglow.ops.elementwise import Add
from afterglow.ops.linear import MatMul
from afterglow.ops.movement import Expand, Transpose

PROGRAM = "program"
"""The namespace of these nodes."""


@aten("alias", namespace=PROGRAM)
def import_alias(n: TorchNode) -> Value:
    """A value that is returned under a further name."""
    return n[0]


@aten("relu.default")
def import_relu(n: TorchNode) -> Value:
    """max(x, 0)."""
    return n.emit(Relu(), n.value("self"))


@aten("linear.default")
def import_linear(n: TorchNode) -> Value:
    """x @ weight.T + bias."""
    weight = n.emit(Transpose((1, 0)), n.value("weight"))
    out = n.emit(MatMul(), n.value("input"), weight)
    bias = n.optional("bias")
    return out if bias is None else n.emit(Add(), out, n.emit(Expand(out.type.shape), bias))
