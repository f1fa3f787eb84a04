"""Convolutions: which algorithm computes each, and the name of its kernel."""

from __future__ import annotations

from afterglow.backends.cpu.kernels.algorithm import Algorithm, by_cost
from afterglow.backends.cpu.kernels.bf16_products import bf16_algorithms
from afterglow.backends.cpu.kernels.conv.choose import conv_algorithms, conv_cost
from afterglow.backends.cpu.kernels.conv.depthwise import depthwise_algorithm, is_depthwise
from afterglow.backends.cpu.kernels.conv.geometry import conv_of
from afterglow.backends.cpu.kernels.table import algorithms
from afterglow.backends.cpu.micro.kernel import KernelRequest
from afterglow.instr import OpInstr
from afterglow.ops.convolution import Conv


def _name(step: OpInstr) -> str:
    """The extents of the windows, and what is particular: `conv_3x3_s2`."""
    conv, weight = conv_of(step), step.required[1]
    parts = ["conv", "x".join(map(str, weight.type.shape[1:-1]))]
    if max(conv.strides) > 1:
        parts.append("s" + "x".join(map(str, dict.fromkeys(conv.strides))))
    if max(conv.dilations) > 1:
        parts.append("dilated")
    if conv.groups > 1 and is_depthwise(step):
        parts.append("depthwise")
    elif conv.groups > 1:
        parts.append("grouped")
    return "_".join(parts)


@algorithms(Conv, name=_name, exact=("weight",))
def algorithms_of(r: KernelRequest) -> list[Algorithm]:
    """All algorithms for a convolution."""
    if conv_of(r.step).groups > 1 and is_depthwise(r.step):
        return [depthwise_algorithm(r, conv_cost(r.step))]
    return by_cost(bf16_algorithms(r), conv_algorithms(r))
