"""Activation functions."""

from __future__ import annotations

from afterglow.exporters.onnx.node import NodeWriter
from afterglow.exporters.onnx.registry import exports
from afterglow.graph import Op
from afterglow.ops import activation as a

WORDS: dict[type[Op], str] = {
    a.Relu: "Relu",
    a.PRelu: "PRelu",
    a.Sigmoid: "Sigmoid",
    a.HardSwish: "HardSwish",
    a.Softplus: "Softplus",
    a.Softsign: "Softsign",
    a.Mish: "Mish",
    a.LeakyRelu: "LeakyRelu",
    a.Elu: "Elu",
    a.Celu: "Celu",
    a.ThresholdedRelu: "ThresholdedRelu",
    a.HardSigmoid: "HardSigmoid",
    a.Selu: "Selu",
    a.Shrink: "Shrink",
}
"""Ops whose attributes are those that ONNX has, by the same names."""


@exports(*WORDS)
def same(n: NodeWriter) -> str:
    """The op of ONNX with the same attributes."""
    return n.emit(WORDS[type(n.op)], *n.operands, **{k: float(v) for k, v in vars(n.op).items()})


@exports(a.Gelu)
def gelu(n: NodeWriter) -> str:
    """By the error function, or by tanh."""
    return n.emit("Gelu", *n.operands, approximate="tanh" if n.op.approximate else None)


@exports(a.Clip)
def clip(n: NodeWriter) -> str:
    """The limits are operands."""
    limits = ("" if limit is None else n.scalar(limit) for limit in (n.op.low, n.op.high))
    return n.emit("Clip", n.operand(0), *limits)
