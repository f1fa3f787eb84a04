"""ATen's convolutions."""

from __future__ import annotations

from afterglow.frontends.common.conversion import as_dtype
from afterglow.frontends.common.layout import to_channels_first, to_channels_last
from afterglow.frontends.torch.node import TorchNode
from afterglow.frontends.torch.registry import aten
from afterglow.graph import Value
from afterglow.ops.convolution import Conv, ConvTranspose
from afterglow.ops.movement import Reshape, Transpose
from afterglow.support.errors import ModelError
from afterglow.support.lazy_dataclass import dataclass


@dataclass(frozen=True)
class _Geometry:
    """One entry per spatial axis; pads, begins then ends."""

    strides: tuple[int, ...]
    pads: tuple[int, ...]
    dilations: tuple[int, ...]
    groups: int


@aten("conv1d.default", "conv2d.default", "conv3d.default")
def conv(n: TorchNode) -> Value:
    """With the same padding in front and behind."""
    return _convolve(n, _geometry(n, 2 * _per_axis(n, "padding")))


@aten("conv1d.padding", "conv2d.padding", "conv3d.padding", "_convolution_mode.default")
def conv_with_word(n: TorchNode) -> Value:
    """Padding by a word: none, or what makes the result as large as x, an odd one behind."""
    dilations, kernel = _per_axis(n, "dilation"), n.value("weight").type.shape[2:]
    if n.argument("padding") != "same":
        return _convolve(n, _geometry(n, (0,) * (2 * len(kernel))))
    totals = [d * (extent - 1) for d, extent in zip(dilations, kernel, strict=True)]
    begins = tuple(total // 2 for total in totals)
    ends = tuple(total - begin for total, begin in zip(totals, begins, strict=True))
    return _convolve(n, _geometry(n, begins + ends))


@aten("conv_transpose1d.default", "conv_transpose2d.input", "conv_transpose3d.input")
def conv_transpose(n: TorchNode) -> Value:
    """With what is added behind the result."""
    return _convolve_back(n, _geometry(n, 2 * _per_axis(n, "padding")))


@aten("convolution.default", "_convolution.default", "_convolution.deprecated")
def convolution(n: TorchNode) -> Value:
    """Either of both."""
    geometry = _geometry(n, 2 * _per_axis(n, "padding"))
    return _convolve_back(n, geometry) if n.flag("transposed") else _convolve(n, geometry)


@aten("conv_tbc.default")
def conv_tbc(n: TorchNode) -> Value:
    """x is [time, batch, channels], the weight [time, channels, results]."""
    x = n.emit(Transpose((1, 0, 2)), n.value("self"))
    weight = n.emit(Transpose((2, 0, 1)), n.value("weight"))
    y = n.emit(Conv((1,), (n.size("pad"),) * 2, (1,), 1), x, weight, n.optional("bias"))
    return n.emit(Transpose((1, 0, 2)), y)


def _per_axis(n: TorchNode, name: str) -> tuple[int, ...]:
    """A number for each spatial axis; one number holds for all."""
    given, axes = n.sizes(name), n.value("weight").type.rank - 2
    if len(given) not in (1, axes):
        raise ModelError(f"argument {name!r} must have {axes} numbers, it has {len(given)}")
    return given if len(given) == axes else given * axes


def _geometry(n: TorchNode, pads: tuple[int, ...]) -> _Geometry:
    strides, dilations = _per_axis(n, "stride"), _per_axis(n, "dilation")
    return _Geometry(strides, pads, dilations, n.size("groups"))


def _convolve(n: TorchNode, g: _Geometry) -> Value:
    return _applied(n, Conv(g.strides, g.pads, g.dilations, g.groups))


def _convolve_back(n: TorchNode, g: _Geometry) -> Value:
    added = _per_axis(n, "output_padding")
    return _applied(n, ConvTranspose(g.strides, g.pads, g.dilations, g.groups, added))


def _applied(n: TorchNode, op: Conv | ConvTranspose) -> Value:
    """Channels last; the batch may be missing."""
    x, weight, bias = n.value("input"), n.value("weight"), n.optional("bias")
    alone = x.type.rank == weight.type.rank - 1
    if alone:
        x = n.emit(Reshape((1, *x.type.shape)), x)
    bias = None if bias is None else as_dtype(n, bias, x.type.dtype)
    y = n.emit(op, to_channels_last(n, x), to_channels_last(n, weight), bias)
    y = to_channels_first(n, y)
    return n.emit(Reshape(y.type.shape[1:]), y) if alone else y
