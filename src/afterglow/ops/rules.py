"""Checks that type rules share, each with an error that names the operand."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from functools import reduce

from afterglow.support.errors import TypeRuleError
from afterglow.types import DType, TensorType
from afterglow.types.dtype import bf16, f16, f32
from afterglow.types.extent import is_ranged, largest, smallest, undecided

STORED_FOR_F32 = (f16, bf16)
"""Storage types of weights that are multiplied in f32."""


def require(condition: bool, what: str, help: str = "") -> None:
    """Raise `TypeRuleError(what)` unless the condition holds."""
    if not condition:
        raise TypeRuleError(what, help=help)


def exact_extent(extent: int, what: str) -> int:
    """An extent that decides something else than how long an axis is: it must be a number."""
    if is_ranged(extent):
        raise undecided(what, extent)
    return extent


def require_float(**operands: TensorType) -> None:
    """Each operand holds floats."""
    for name, type in operands.items():
        require(type.dtype.is_float, f"{name} must hold floats, got {type}")


def require_number(**operands: TensorType) -> None:
    """Each operand holds numbers: no booleans, no strings."""
    for name, type in operands.items():
        require(type.dtype.is_number, f"{name} must hold numbers, got {type}")


def require_integer(**operands: TensorType) -> None:
    """Each operand holds integers."""
    for name, type in operands.items():
        require(type.dtype.is_integer, f"{name} must hold integers, got {type}")


def require_dtype(dtype: DType, **operands: TensorType) -> None:
    """Each operand holds elements of one given type."""
    for name, type in operands.items():
        require(type.dtype is dtype, f"{name} must hold {dtype}, got {type}")


def require_same_dtype(**operands: TensorType) -> DType:
    """All operands hold elements of one type, which is returned."""
    (first, type), *rest = operands.items()
    for name, other in rest:
        require(
            other.dtype is type.dtype,
            f"{first} and {name} must hold the same elements, got {type} and {other}",
            help="insert a cast",
        )
    return type.dtype


def require_weights(**operands: TensorType) -> None:
    """The operands after the first have its type, or a 16-bit storage type if that is f32."""
    (first, x), *weights = operands.items()
    for name, weight in weights:
        if x.dtype is not f32 or weight.dtype not in STORED_FOR_F32:
            require_same_dtype(**{first: x, name: weight})


def require_rank(rank: int, **operands: TensorType) -> None:
    """Each operand has `rank` axes."""
    for name, type in operands.items():
        require(type.rank == rank, f"{name} must have {rank} axes, got {type}")


def require_shape(shape: Sequence[int], **operands: TensorType) -> None:
    """Each operand has exactly this shape."""
    for name, type in operands.items():
        wanted = tuple(shape)
        what = f"{name} must have shape {wanted}, got {type}"
        require(same_extents(type.shape, wanted, what), what)


def same_extents(first: Sequence[int], second: Sequence[int], what: str) -> bool:
    """Whether shapes are the same; `what` is undecided if that is so for some extents only."""
    if tuple(first) == tuple(second):
        return True
    pairs = [(m, n) for m, n in zip(first, second, strict=False) if m != n]
    if len(first) == len(second) and all(smallest(m - n) <= 0 <= largest(m - n) for m, n in pairs):
        raise undecided(f"{what}: that", *(extent for pair in pairs for extent in pair))
    return False


def require_exact(**operands: TensorType) -> None:
    """No operand has extents that depend on the run."""
    for name, type in operands.items():
        if type.is_ranged:
            raise undecided(
                f"{name} {type}, which must have the same extents each time,", *type.shape
            )


def normal_axis(axis: int, type: TensorType, name: str = "x") -> int:
    """The axis counted from the front; -1 is the last."""
    require(
        -type.rank <= axis < type.rank,
        f"axis {axis} is out of range for {name}: {type} has {type.rank} axes",
        help=f"axes run from {-type.rank} to {type.rank - 1}" if type.rank else "it is a scalar",
    )
    return axis % type.rank


def normal_axes(axes: Sequence[int], type: TensorType, name: str = "x") -> tuple[int, ...]:
    """The axes counted from the front, in order; none twice."""
    found = sorted(normal_axis(axis, type, name) for axis in axes)
    require(len({*found}) == len(found), f"axes {tuple(axes)} name an axis of {name} twice")
    return tuple(found)


def broadcast_shape(**operands: TensorType) -> tuple[int, ...]:
    """The common shape to which all operands are repeated along axes of extent 1, as in NumPy."""
    return reduce(lambda a, b: _broadcast_two(a, b, operands), (t.shape for t in operands.values()))


def may_broadcast(m: int, n: int) -> bool:
    """Whether two extents are equal, or one of them 1, in some run."""
    if smallest(m - n) <= 0 <= largest(m - n):
        return True
    return any(smallest(extent) <= 1 <= largest(extent) for extent in (m, n))


def _broadcast_two(
    a: tuple[int, ...], b: tuple[int, ...], operands: dict[str, TensorType]
) -> tuple[int, ...]:
    rank = max(len(a), len(b))
    a, b = (1,) * (rank - len(a)) + a, (1,) * (rank - len(b)) + b
    if any(operator.ne(m, n) and 1 not in (m, n) for m, n in zip(a, b, strict=True)):
        shown = ", ".join(f"{name} {type}" for name, type in operands.items())
        for m, n in zip(a, b, strict=True):
            if m != n and 1 not in (m, n) and may_broadcast(m, n):
                raise undecided(f"whether {m} and {n} broadcast in {shown}", m, n)
        raise TypeRuleError(
            f"shapes do not broadcast: {shown}",
            help="extents must be equal or 1, counted from the last axis",
        )
    return tuple(n if m == 1 else m for m, n in zip(a, b, strict=True))
