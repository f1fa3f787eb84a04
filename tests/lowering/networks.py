"""Small networks to split, built by hand; weights are whole numbers, so that integers are exact."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from afterglow.graph import Builder, Function, Op, Value
from afterglow.ops.convolution import Conv
from afterglow.types import DType, TensorType
from afterglow.types.dtype import f32


@dataclass
class Network:
    """A function under construction."""

    function: Function
    b: Builder
    seed: int = 0

    def input(self, *shape: int, dtype: DType = f32) -> Value:
        name = f"x{len(self.function.inputs)}"
        return self.function.input(name, TensorType(dtype, shape))

    def constant(self, *shape: int, dtype: DType = f32) -> Value:
        self.seed += 1
        numbers = np.random.default_rng(self.seed).integers(-2, 3, shape)
        return self.b.constant(numbers.astype(dtype.numpy), "weight")

    def emit(self, op: Op, *operands: Value | None, name: str = "") -> Value:
        return self.b.emit(op, *operands, name=name)

    def conv(
        self,
        x: Value,
        channels: int,
        kernel: int = 3,
        *,
        stride: int = 1,
        pad: int | None = None,
        dilation: int = 1,
        groups: int = 1,
        bias: bool = False,
        name: str = "",
    ) -> Value:
        """A convolution over all spatial axes of x; by default stride 1 keeps the extents."""
        spatial = x.type.rank - 2
        around = dilation * (kernel // 2) if pad is None else pad
        op = Conv((stride,) * spatial, (around,) * 2 * spatial, (dilation,) * spatial, groups)
        dtype, inner = x.type.dtype, x.type.shape[-1] // groups
        weight = self.constant(channels, *(kernel,) * spatial, inner, dtype=dtype)
        added = (self.constant(channels, dtype=dtype),) if bias else ()
        return self.emit(op, x, weight, *added, name=name)


def network(build: Callable[[Network], Value | tuple[Value, ...]]) -> Function:
    """The function that returns what `build` makes."""
    function = Function("main")
    made = build(Network(function, Builder(function)))
    for index, value in enumerate(made if isinstance(made, tuple) else (made,)):
        function.output(f"y{index}", value)
    return function
