"""What a case of an op is: the op, the types of its operands, and inputs made from a seed."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import field

import numpy as np

from afterglow.graph import Op, run_op
from afterglow.graph.attributes import attributes_text
from afterglow.graph.op import result_types
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types import Array, TensorType
from afterglow.types import dtype as dtypes
from afterglow.types.dtype import Kind


def tensor(dtype: dtypes.DType) -> Callable[..., TensorType]:
    """A function from a shape to a type of these elements, so that a case reads f32(2, 3)."""
    return lambda *shape: TensorType(dtype, shape)


f64, f32, f16, bf16 = (tensor(d) for d in (dtypes.f64, dtypes.f32, dtypes.f16, dtypes.bf16))
i8, i16, i32, i64 = (tensor(d) for d in (dtypes.i8, dtypes.i16, dtypes.i32, dtypes.i64))
u8, u16, u32, u64 = (tensor(d) for d in (dtypes.u8, dtypes.u16, dtypes.u32, dtypes.u64))
boolean, c64, string = tensor(dtypes.boolean), tensor(dtypes.c64), tensor(dtypes.string)


@dataclass(frozen=True)
class Case:
    """An op, operand types (None: not given), and the inputs where random ones will not do.

    `given` maps an operand index to its array; `low` and `high` bound the random numbers.
    """

    op: Op
    types: tuple[TensorType | None, ...]
    given: dict[int, Array] = field(default_factory=dict, hash=False)
    low: float = -2.0
    high: float = 2.0
    tolerance: float = 1e-5
    """Relative tolerance of other ways to compute the same, such as the op's lowering."""

    def inputs(self) -> list[Array | None]:
        """The same arrays each time."""
        rng = np.random.default_rng(zlib.crc32(str(self).encode()))
        return [
            self.given[i] if i in self.given else None if t is None else self._random(rng, t)
            for i, t in enumerate(self.types)
        ]

    def results(self) -> tuple[TensorType, ...]:
        """The types of the op's results."""
        return result_types(self.op.infer(*self.types))

    def wanted(self) -> tuple[Array, ...]:
        """The op's results by its definition."""
        return run_op(self.op, self.inputs(), self.results())

    @property
    def decomposes(self) -> bool:
        """Whether the op can be lowered to simpler ones, if it does not decline."""
        return type(self.op).lower is not Op.lower

    def _random(self, rng: np.random.Generator, type: TensorType) -> Array:
        match type.dtype.kind:
            case Kind.BOOL:
                return rng.random(type.shape) < 0.5
            case Kind.INT | Kind.UINT:
                low = int(self.low) if type.dtype.is_signed else max(0, int(self.low))
                return rng.integers(low, int(self.high) + 1, type.shape).astype(type.dtype.numpy)
            case Kind.STRING:
                return rng.choice(["a", "b", "longer"], type.shape).astype(object)
        return rng.uniform(self.low, self.high, type.shape).astype(type.dtype.numpy)

    def __str__(self) -> str:
        return f"{self.op.mnemonic}{attributes_text(self.op)}({', '.join(map(str, self.types))})"


def case(
    op: Op,
    *types: TensorType | None,
    given: dict[int, Array] | None = None,
    low: float = -2.0,
    high: float = 2.0,
    tolerance: float = 1e-5,
) -> Case:
    """A case as it is written in the tables."""
    return Case(op, types, given or {}, low, high, tolerance)
