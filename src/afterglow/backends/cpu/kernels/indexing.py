"""Elements gathered by indices: rows of embeddings, single elements, slices by tuples."""

from __future__ import annotations

import math

from afterglow.backends.broadcast import Strides
from afterglow.backends.cpu.kernels.table import kernel
from afterglow.backends.cpu.llvm.emitter import convert
from afterglow.backends.cpu.micro.index_check import IndexCheck
from afterglow.backends.cpu.micro.kernel import Kernel
from afterglow.backends.cpu.micro.move import StridedMove, Term, write_gathered
from afterglow.instr import OpInstr
from afterglow.ops.indexing import Gather, GatherElements, GatherND
from afterglow.ops.lengths import CheckLabels, CheckLengths
from afterglow.types.extent import has_room


def _has_elements(step: OpInstr) -> bool:
    """Whether the operand has elements: of an empty one the host reports the error.

    If data tell, it must lie where there is room for elements, as what is out of range is read.
    """
    data = step.required[0].type
    return has_room(data.shape) or data.size > 0


@kernel(Gather, accepts=_has_elements)
def write_gather(k: Kernel) -> None:
    """Write a kernel that gathers slices along an axis, which the axes of the indices replace."""
    op, (data, indices), (out,) = k.step.op, k.step.required, k.step.outs
    assert isinstance(op, Gather)
    axis = op.axis % data.type.rank
    before, after = data.strides[:axis], data.strides[axis + 1 :]
    source = (*before, *_none(indices.type.rank), *after)
    index_strides = (*_none(len(before)), *indices.strides, *_none(len(after)))
    move = StridedMove.of(out.type.shape, out.strides, source, index_strides)
    term = Term(0, data.strides[axis])
    write_gathered(k, data, indices, move, [term])


@kernel(GatherElements, accepts=_has_elements)
def write_gather_elements(k: Kernel) -> None:
    """Write a kernel in which the index replaces the position along the axis."""
    op, (data, indices), (out,) = k.step.op, k.step.required, k.step.outs
    assert isinstance(op, GatherElements)
    axis = op.axis % data.type.rank
    source = tuple(0 if at == axis else stride for at, stride in enumerate(data.strides))
    move = StridedMove.of(out.type.shape, out.strides, source, indices.strides)
    term = Term(0, data.strides[axis])
    write_gathered(k, data, indices, move, [term])


@kernel(GatherND, accepts=_has_elements)
def write_gather_nd(k: Kernel) -> None:
    """Write a kernel in which a tuple of indices stands for as many axes of data."""
    op, (data, indices), (out,) = k.step.op, k.step.required, k.step.outs
    assert isinstance(op, GatherND)
    batch, depth = op.batch_axes, indices.type.shape[-1]
    picking = indices.type.rank - 1 - batch
    after = data.strides[batch + depth :]
    source = (*data.strides[:batch], *_none(picking), *after)
    index_strides = (*indices.strides[:-1], *_none(len(after)))
    terms = [Term(at * indices.strides[-1], data.strides[batch + at]) for at in range(depth)]
    move = StridedMove.of(out.type.shape, out.strides, source, index_strides)
    write_gathered(k, data, indices, move, terms)


@kernel(CheckLengths)
def write_check_lengths(k: Kernel) -> None:
    """Write a kernel that checks lengths."""
    _write_check(k, "lengths")


@kernel(CheckLabels)
def write_check_labels(k: Kernel) -> None:
    """Write a kernel that checks labels."""
    _write_check(k, "labels")


def _write_check(k: Kernel, operand: str) -> None:
    """Write a kernel of one unit that checks all numbers, which are few."""
    numbers = k.step.required[0]
    *rows, columns = numbers.type.shape or (1,)
    with k.phase(1, float(numbers.type.size)) as p:
        check, source, sink = IndexCheck(p, operand), p.source(0), p.sink()
        with p.units(), p.e.loop(math.prod(rows), name="row") as row:
            given, out = source.row(row), sink.row(row)
            with p.e.loop(columns, name="column") as column:
                number = check.place(given.load(column, 1))
                out.put(column, convert(number, numbers.type.dtype))


def _none(count: int) -> Strides:
    return (0,) * count
