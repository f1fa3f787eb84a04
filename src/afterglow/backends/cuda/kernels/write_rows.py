"""Rows written into a cache: where it lies if it may be changed, else into a copy."""

from __future__ import annotations

import math

from afterglow.backends.cuda.kernels.kernel import Kernel, KernelSource
from afterglow.backends.cuda.kernels.lines import power_of_two
from afterglow.backends.cuda.kernels.table import ANCHORS
from afterglow.backends.cuda.target import CudaTarget
from afterglow.backends.cuda.tl import Value
from afterglow.backends.cuda.tl.code import offset
from afterglow.backends.items.chain import places_of
from afterglow.backends.items.gather import in_range
from afterglow.backends.job import Job
from afterglow.backends.pointwise.vocabulary import convert, equal, select
from afterglow.instr import OpInstr
from afterglow.ops.cached_attention import WriteRows
from afterglow.types.dtype import i32

_BLOCK = 256
"""Elements of a program."""


def _accepts(step: OpInstr, target: CudaTarget) -> bool:
    return step.predicate is None


@ANCHORS.declare(WriteRows, accepts=_accepts, epilogue=False)
def write_rows(job: Job, target: CudaTarget) -> KernelSource:
    """The rows of tokens, or all elements of a cache that stays as it is."""
    kernel = Kernel(job, target)
    cache, out = kernel.step.operand(0), kernel.step.outs[0]
    in_place = out is cache or (out.root is cache.root and out.start == cache.start)
    (_write_in_place if in_place else _write_copy)(kernel)
    return kernel.finish()


def _write_in_place(kernel: Kernel) -> None:
    """Some elements of the row of a token, unless a later one has the same place."""
    step, code = kernel.step, kernel.code
    rows, out = step.operand(1), step.outs[0]
    tokens, *inner = rows.type.shape
    size = math.prod(inner)
    block = min(_BLOCK, power_of_two(size))
    blocks = -(-size // block)
    kernel.grid, kernel.warps = (tokens * blocks, 1, 1), max(1, block // 64)
    token = code.named(code.program().combined("/", blocks))
    element = code.named(code.program().combined("%", blocks) * block + code.range(block))
    head, column = places_of(kernel, element, inner)
    position, sequence = (_number(kernel, index, token) for index in (2, 3))
    is_last = _is_last(kernel, token, position, sequence)
    position = in_range(kernel, "positions", position)
    sequence = in_range(kernel, "sequences", sequence)
    with code.when(is_last), code.when(element < size):
        value = kernel.pointer(rows).load(offset(code, [token, head, column], rows.strides))
        kernel.pointer(out).store(
            value, offset(code, [sequence, head, position, column], out.strides)
        )


def _number(kernel: Kernel, operand: int, token: Value) -> Value:
    """The position or the sequence of a token."""
    buffer = kernel.step.operand(operand)
    return kernel.pointer(buffer).load(token * buffer.strides[0])


def _is_last(kernel: Kernel, token: Value, position: Value, sequence: Value) -> Value:
    """Whether no later token is at the same place."""
    code, tokens = kernel.code, kernel.step.operand(1).type.shape[0]
    other = code.range(power_of_two(tokens))
    with code.when(other < tokens):
        alike = equal(_number(kernel, 2, other), position)
        alike = alike & equal(_number(kernel, 3, other), sequence)
    later = convert(alike & (other > token) & (other < tokens), i32)
    return equal(later.derive(f"tl.max({later.text}, 0)", shape=()), 0)


def _write_copy(kernel: Kernel) -> None:
    """Every element of the cache, or of the last row that is at its place."""
    step, code = kernel.step, kernel.code
    cache, rows, out = step.operand(0), step.operand(1), step.outs[0]
    item = kernel.each(out.type.size)
    places = places_of(kernel, item, out.type.shape)
    sequence, head, position, column = places
    value = code.variable(kernel.pointer(cache).load(offset(code, places, cache.strides)))
    with code.loop(rows.type.shape[0]) as token:
        at = in_range(kernel, "positions", _number(kernel, 2, token))
        of = in_range(kernel, "sequences", _number(kernel, 3, token))
        here = at.combined("==", position) & of.combined("==", sequence)
        with code.when(here):
            new = kernel.pointer(rows).load(offset(code, [token, head, column], rows.strides))
            code.assign(value, select(here, new, value))
    kernel.pointer(out).store(value, offset(code, places, out.strides))
