"""Softmax, its logarithm and hardmax: the largest of each line, a sum of powers, the results."""

from __future__ import annotations

from operator import add

from afterglow.backends.cpu.kernels.table import kernel
from afterglow.backends.cpu.llvm.emitter import Value, convert, equal, maximum
from afterglow.backends.cpu.llvm.math import exp_down, log
from afterglow.backends.cpu.micro.access import (
    Reader,
    Writer,
    lines_along,
    open_sink,
    open_source,
)
from afterglow.backends.cpu.micro.cost import SOFTMAX_ELEMENT, work_of
from afterglow.backends.cpu.micro.extreme import ExtremeSearch, least
from afterglow.backends.cpu.micro.kernel import Kernel, KernelNeeds, KernelRequest, Phase
from afterglow.backends.cpu.micro.operand_cache import (
    CachedOperand,
    cache_for,
    cached,
    must_compute,
)
from afterglow.backends.cpu.micro.reduction_line import Position, ReductionLine, each_line
from afterglow.backends.cpu.micro.reduction_lines import ReductionLines
from afterglow.backends.cpu.micro.staged import (
    Fold,
    FoldStages,
    Results,
    staged_needs,
    write_staged,
)
from afterglow.ops.softmax import AlongAxis, Hardmax, LogSoftmax, Softmax

UNROLL = 2
"""Vectors in one turn of a loop that computes exponentials."""


def _needs(r: KernelRequest) -> KernelNeeds:
    """Memory to cache in: exponentials for softmax, a computed operand for its logarithm."""
    keeps = isinstance(r.step.op, Softmax) or must_compute(r)
    return staged_needs(_lines(r), 2, keeps=keeps)


@kernel(Softmax, LogSoftmax, fuses=("x",), needs=_needs)
def write_softmax(k: Kernel) -> None:
    """Write the kernel of softmax or of its logarithm."""
    lines = _lines(k)
    prepare = _softmax if isinstance(k.step.op, Softmax) else _log_softmax
    write_staged(k, lines, _work(k), 2, prepare)


@kernel(Hardmax, fuses=("x",))
def write_hardmax(k: Kernel) -> None:
    """Write the kernel of hardmax: 1 where the first largest element of a line is."""
    lines = _lines(k)
    with k.phase(lines.units, _work(k)) as p:
        source = open_source(p, lines.layout.shape, lines.layout.source)
        sink = open_sink(p, lines.layout.shape, lines.layout.sink)
        each_line(p, lines, lambda line: _hardmax(line, source, sink))


def _lines(k: KernelRequest) -> ReductionLines:
    op = k.step.op
    assert isinstance(op, AlongAxis)
    return lines_along(k, op.axis)


def _work(k: Kernel) -> float:
    return work_of(k.step.outs[0].type.size, SOFTMAX_ELEMENT)


def _softmax(p: Phase, lines: ReductionLines) -> FoldStages:
    """The exponentials are cached if there is memory for it, and scaled in the end."""
    cache = cache_for(p, lines)
    x = cached(p, open_source(p, lines.layout.shape, lines.layout.source), cache)
    sink = open_sink(p, lines.layout.shape, lines.layout.sink)

    def cached_power(position: Position, results: Results) -> Value:
        found = _power(x, position, results)
        if cache is not None:
            cache.store(position, found)
        return found

    def put(position: Position, results: Results) -> None:
        found = _power(x, position, results) if cache is None else cache.load(position)
        position.put(sink, found * results[1][position.which])

    total = Fold(
        0, cached_power, add, lambda total, r, n: 1.0 / total + _no_number(r[0][n]), UNROLL
    )
    return FoldStages((_peak(x, lines), total), put, UNROLL)


def _log_softmax(p: Phase, lines: ReductionLines) -> FoldStages:
    x = cached(p, open_source(p, lines.layout.shape, lines.layout.source), cache_for(p, lines))
    sink = open_sink(p, lines.layout.shape, lines.layout.sink)

    def power(position: Position, results: Results) -> Value:
        return _power(x, position, results)

    def put(position: Position, results: Results) -> None:
        peak, logarithm = (found[position.which] for found in results)
        position.put(sink, (x.again(position) - peak) - logarithm)

    total = Fold(0, power, add, lambda total, r, n: log(total) + _no_number(r[0][n]), UNROLL)
    return FoldStages((_peak(x, lines), total), put, UNROLL)


def _peak(x: CachedOperand, lines: ReductionLines) -> Fold:
    """The largest element; NaN if one is."""
    return Fold(
        least(lines.dtype),
        lambda position, _: x.first(position),
        maximum,
        lambda peak, _, __: peak,
    )


def _power(x: CachedOperand, position: Position, results: Results) -> Value:
    """The exponential of an element, less the largest one."""
    return exp_down(x.again(position) - results[0][position.which])


def _no_number(peak: Value) -> Value:
    """0, or NaN if the largest element is infinite or NaN: then so are all results."""
    return peak - peak


def _hardmax(line: ReductionLine, source: Reader, sink: Writer) -> None:
    found = ExtremeSearch().positions(line, source)

    def put(position: Position) -> None:
        index = found[position.which]
        here = equal(position.index_in_line(index.dtype), index)
        position.put(sink, convert(here, line.lines.dtype))

    line.each(put, unroll=UNROLL)
