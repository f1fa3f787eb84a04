"""Drop padding-only taps: kernel positions that only ever meet padding.

In deep layers an image may be one or two pixels large; of a 3 x 3 kernel only the middle counts
there.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from afterglow.graph import Builder, Constant, Node, Value
from afterglow.ops.convolution import Conv
from afterglow.passes import RewritePass, rewrite
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types.extent import largest


@rewrite(Conv)
def drop_padding_only_taps(node: Node, b: Builder) -> Value | None:
    """conv(x, w)  ->  conv(x, w[taps that see something]), with less padding."""
    match node:
        case Node(Conv() as op, [Value() as x, Constant() as weight, *others]):
            axes = _axes(op, x, weight, node.result)
            dropped = [axis.padding_only() for axis in axes]
            if not any(map(any, dropped)):
                return None
            pairs = [*zip(axes, dropped, strict=True)]
            if not np.isfinite(weight.data).all():  # 0 times infinity is not 0
                return None
            kept = tuple(slice(first, axis.kernel - last) for axis, (first, last) in pairs)
            begins = (axis.begin - first * axis.dilation for axis, (first, _) in pairs)
            ends = (axis.end - last * axis.dilation for axis, (_, last) in pairs)
            smaller = b.constant(weight.data[:, *kept], name=weight.name)
            return b.emit(replace(op, pads=(*begins, *ends)), x, smaller, *others)
    return None


@dataclass(frozen=True)
class _Axis:
    """How a kernel slides along one axis."""

    extent: int
    kernel: int
    count: int
    stride: int
    dilation: int
    begin: int
    end: int

    def padding_only(self) -> tuple[int, int]:
        """The numbers of padding-only taps at the beginning and at the end; one tap remains."""
        taps = range(self.kernel)
        sees = [self._sees(tap) for tap in taps]
        first = next((tap for tap in taps if sees[tap]), 0)
        last = next((tap for tap in reversed(taps) if sees[tap]), self.kernel - 1)
        return (
            min(first, self.begin // self.dilation),
            min(self.kernel - 1 - last, self.end // self.dilation),
        )

    def _sees(self, tap: int) -> bool:
        # at the largest extent, where most taps see something
        start, extent = tap * self.dilation - self.begin, largest(self.extent)
        places = range(start, extent, self.stride)[: largest(self.count)]
        return bool(places) and places[-1] >= 0


def _axes(op: Conv, x: Value, weight: Value, result: Value) -> list[_Axis]:
    rank = len(op.strides)
    return [
        _Axis(*numbers)
        for numbers in zip(
            x.type.shape[1:-1],
            weight.type.shape[1:-1],
            result.type.shape[1:-1],
            op.strides,
            op.dilations,
            op.pads[:rank],
            op.pads[rank:],
            strict=True,
        )
    ]


DROP_PADDING_ONLY_TAPS = RewritePass("drop-padding-only-taps", (drop_padding_only_taps,))
