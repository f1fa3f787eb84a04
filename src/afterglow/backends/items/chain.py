"""Element-wise steps on the elements at one place of a shape."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from afterglow.backends.broadcast import Strides
from afterglow.backends.items.language import Kernel, offset
from afterglow.backends.items.types import computed
from afterglow.backends.pointwise import compute
from afterglow.backends.pointwise.value import ValueT
from afterglow.backends.pointwise.vocabulary import convert
from afterglow.instr import Buffer, OpInstr
from afterglow.ops.conversion import Cast
from afterglow.types.dtype import f32


def run_chain(
    kernel: Kernel[ValueT],
    steps: Sequence[OpInstr],
    given: Mapping[Buffer, ValueT],
    places: Sequence[ValueT],
    strides: Mapping[Buffer, Strides],
    lanes: int = 1,
) -> dict[Buffer, ValueT]:
    """Compute the steps at a place, and return all values; `given` are known already.

    `lanes` elements that are neighbours along the last axis are computed at once. Floats of 16 bits
    stay in f32 from step to step: they are rounded where they are stored, or read as another type.
    """
    values, loaded = dict(given), dict[tuple[Buffer, bool], ValueT]()

    def value_of(buffer: Buffer, step: OpInstr) -> ValueT:
        if buffer in values:
            kept = not step.op.moves_only and step.outs[0].type.dtype.is_narrow_float
            return values[buffer] if kept else as_declared(values[buffer], buffer)
        key = buffer, step.op.moves_only
        if key not in loaded:
            of_buffer = strides[buffer]
            loaded[key] = load(kernel, buffer, places, of_buffer, lanes, to_move=key[1])
        return loaded[key]

    for step in steps:
        operands = [None if b is None else value_of(b, step) for b in step.ins]
        values[step.outs[0]] = _result(step, operands)
    return values


def _result(step: OpInstr, operands: Sequence[ValueT | None]) -> ValueT:
    """What a step makes; a float of 16 bits as f32, not rounded yet, unless it was moved."""
    dtype = step.outs[0].type.dtype
    if isinstance(step.op, Cast) and dtype.is_narrow_float:
        (x,) = operands
        if x is not None and x.dtype is f32:
            return x
    return compute(step.op, dtype if step.op.moves_only else computed(dtype), operands)


def as_declared(value: ValueT, buffer: Buffer) -> ValueT:
    """A value in the type of its buffer, if it was computed in a wider one."""
    dtype = buffer.type.dtype
    return convert(value, dtype) if dtype.is_narrow_float and value.dtype is f32 else value


def load(
    kernel: Kernel[ValueT],
    buffer: Buffer,
    places: Sequence[ValueT],
    strides: Strides,
    lanes: int = 1,
    *,
    to_move: bool = False,
) -> ValueT:
    """The element of a buffer at a place; a scalar if it is the same in all lanes.

    Floats of 16 bits become f32, unless they are only moved.
    """
    known = kernel.known(buffer)
    if known is not None:
        return known
    source = kernel.pointer(buffer) if to_move else kernel.numbers(buffer)
    along_lanes = bool(strides) and strides[-1] != 0
    return source.load(offset(kernel.code, places, strides), lanes if along_lanes else 1)


def store_results(
    kernel: Kernel[ValueT],
    values: Mapping[Buffer, ValueT],
    places: Sequence[ValueT],
    strides: Mapping[Buffer, Strides],
    lanes: int = 1,
) -> None:
    """Write every result that is in memory."""
    outs = [out for step in kernel.job.steps for out in step.outs]
    for out in outs:
        if out not in kernel.job.locals and out in values:
            where = offset(kernel.code, places, strides[out])
            value, dest = values[out].splat(lanes), kernel.pointer(out)
            (dest if value.dtype is dest.dtype else dest.numbers).store(value, where)


def places_of(kernel: Kernel[ValueT], item: ValueT, shape: Sequence[int]) -> list[ValueT]:
    """The index along each axis of an element, given its number in row-major order."""
    places: list[ValueT] = []
    rest: ValueT = item
    for extent in reversed(shape[1:]):
        if extent == 1:
            places.insert(0, kernel.code.index(0))
            continue
        places.insert(0, kernel.code.named(rest.combined("%", extent)))
        rest = kernel.code.named(rest.combined("/", extent))
    return [rest, *places] if shape else []
