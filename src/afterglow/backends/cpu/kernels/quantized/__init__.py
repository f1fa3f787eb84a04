"""Convolutions and matrix products of bytes, in integers."""

from __future__ import annotations

from afterglow.backends.cpu.kernels.algorithm import Algorithm
from afterglow.backends.cpu.kernels.quantized.by_lines import line_algorithm
from afterglow.backends.cpu.kernels.quantized.depthwise import depthwise_algorithm, is_depthwise
from afterglow.backends.cpu.kernels.quantized.depthwise_by_lines import depthwise_by_lines
from afterglow.backends.cpu.kernels.quantized.problem import operands
from afterglow.backends.cpu.kernels.quantized.product import product_algorithm
from afterglow.backends.cpu.kernels.quantized.tiles import tile_algorithm
from afterglow.backends.cpu.kernels.table import algorithms
from afterglow.backends.cpu.micro.kernel import KernelRequest
from afterglow.instr import OpInstr
from afterglow.ops.quantized import QuantizedConv, QuantizedMatMul


def _name_of_conv(step: OpInstr) -> str:
    """The extents of the windows: `quantized_conv_3x3`."""
    _, weight = operands(step)
    kind = "depthwise" if is_depthwise(step) else "conv"
    return f"quantized_{kind}_{'x'.join(map(str, weight.type.shape[1:-1]))}"


def _name_of_matmul(step: OpInstr) -> str:
    """The extents of the result: `quantized_matmul_128x768`."""
    return f"quantized_matmul_{'x'.join(map(str, step.outs[0].type.shape[-2:]))}"


@algorithms(QuantizedConv, name=_name_of_conv, exact=("weight",))
def conv(r: KernelRequest) -> list[Algorithm]:
    """A convolution of bytes."""
    if is_depthwise(r.step):
        return [depthwise_by_lines(r) or depthwise_algorithm(r)]
    return _products(r)


@algorithms(QuantizedMatMul, name=_name_of_matmul)
def matmul(r: KernelRequest) -> list[Algorithm]:
    """A matrix product of bytes."""
    return _products(r)


def _products(r: KernelRequest) -> list[Algorithm]:
    """How the machine can multiply bytes, the fastest first."""
    found = [line_algorithm(r) or product_algorithm(r), tile_algorithm(r)]
    return sorted((a for a in found if a is not None), key=lambda algorithm: algorithm.cost)
