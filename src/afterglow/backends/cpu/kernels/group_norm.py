"""Normalization over small groups of innermost channels: vectors run across the groups.

Rows are summed up channel by channel, a block of rows a unit. Between such walks the sums of the
channels of a group are joined, and what comes out is written down for each channel.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from afterglow.backends.cpu.kernels.algorithm import Algorithm
from afterglow.backends.cpu.llvm.emitter import (
    Emitter,
    Index,
    Pointer,
    Value,
    convert,
    first_lanes,
    fma,
    smaller,
    sqrt,
)
from afterglow.backends.cpu.micro.cost import GROUP_NORM_ELEMENT, plain_cost, work_of
from afterglow.backends.cpu.micro.fusion import Source, SourceRow
from afterglow.backends.cpu.micro.kernel import Kernel, KernelNeeds, KernelRequest, Phase, Storage
from afterglow.backends.cpu.micro.lanes import full_lanes
from afterglow.backends.cpu.micro.reduction_lines import arithmetic_type
from afterglow.backends.cpu.micro.rows import split
from afterglow.backends.cpu.target import Target
from afterglow.instr import OpInstr
from afterglow.ops.normalization import GroupNorm
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types.dtype import DType
from afterglow.types.extent import largest

VECTORS = 8
"""Vectors of channels that are summed up side by side, so that none waits for the one before."""
BLOCK = 1 << 14
"""Elements of a block of rows, about."""
MOST_BLOCKS = 64

Finish = Callable[[Value], Value]
"""What follows from the sum of a group."""
Term = Callable[[Value, Index], Value]
"""What is summed up, of elements and the channel of the first of them."""


@dataclass(frozen=True)
class NormalizedChannels:
    """Images as rows of channels, and the blocks that rows are divided into."""

    images: int
    rows: int
    channels: int
    groups: int
    dtype: DType
    lanes: int

    @staticmethod
    def of(step: OpInstr, target: Target) -> NormalizedChannels:
        """Those of a normalization whose channels are last."""
        op, x = step.op, step.required[0]
        assert isinstance(op, GroupNorm)
        images, *middle, channels = x.type.shape
        dtype = arithmetic_type(x.type.dtype)
        lanes = full_lanes(target, dtype)
        return NormalizedChannels(images, prod(middle), channels, op.groups, dtype, lanes)

    @property
    def size(self) -> int:
        """Channels of a group."""
        return self.channels // self.groups

    @property
    def pitch(self) -> int:
        """Elements from one line of sums to the next: whole vectors."""
        return -(-self.channels // self.lanes) * self.lanes

    @property
    def block(self) -> int:
        """Rows of a block."""
        least = max(1, BLOCK // self.channels)
        return max(least, -(-largest(self.rows) // MOST_BLOCKS))

    @property
    def blocks(self) -> int:
        """Blocks of an image."""
        return -(-self.rows // self.block)

    @property
    def units(self) -> int:
        """Blocks of all images."""
        return self.images * self.blocks

    @property
    def work(self) -> float:
        """FLOPs of one walk."""
        return work_of(self.images * self.rows * self.channels, GROUP_NORM_ELEMENT)


def has_small_groups(step: OpInstr, target: Target) -> bool:
    """Whether groups are neighbours in a row, and too small to fill vectors of their own."""
    op, x = step.op, step.required[0]
    assert isinstance(op, GroupNorm)
    if op.axis % x.type.rank != x.type.rank - 1 or largest(x.type.size) == 0 or op.groups == 1:
        return False
    plan = NormalizedChannels.of(step, target)
    is_narrow = plan.size < 2 * plan.lanes or plan.size % plan.lanes != 0
    return plan.size > 1 and is_narrow


def small_groups_algorithm(r: KernelRequest) -> Algorithm:
    """The algorithm for such a normalization."""
    plan = NormalizedChannels.of(r.step, r.target)
    line = Storage(plan.dtype, plan.images * plan.pitch)
    workspace = {
        "sums": Storage(plan.dtype, plan.units * plan.pitch),
        "means": line,
        "factors": line,
    }
    return Algorithm(
        "across-groups", plain_cost(r.job), _write_small_groups, KernelNeeds(workspace)
    )


def _write_small_groups(k: Kernel) -> None:
    """Means, then mean squares of what differs from them, then the results."""
    op, plan = k.step.op, NormalizedChannels.of(k.step, k.target)
    assert isinstance(op, GroupNorm)
    length = plan.rows * plan.size
    _write_sums(k, plan, "sums", lambda p: lambda x, _: x)
    _write_joined(k, plan, "means", lambda total: total / length)
    _write_sums(k, plan, "squares", _squares(plan))
    _write_joined(k, plan, "factors", lambda total: 1.0 / sqrt(total / length + op.epsilon))
    _write_results(k, plan)


class _Walk:
    """One walk through the rows of a block, some vectors of channels at a time."""

    def __init__(self, p: Phase, plan: NormalizedChannels, unit: Value) -> None:
        self.p, self.e, self.plan = p, p.e, plan
        self.image, block = split(unit, plan.blocks)
        first = block * plan.block
        self.first = self.image * plan.rows + first
        self.count: Index = plan.block
        if plan.rows % plan.block != 0:
            self.count = smaller(plan.rows - p.e.index(first), plan.block)

    def loaded(self, row: SourceRow, column: Index, mask: Value | None) -> Value:
        """Neighbouring elements of a row, as they are computed with."""
        value = row.load(column, self.plan.lanes, mask).splat(self.plan.lanes)
        return value if value.dtype is self.plan.dtype else convert(value, self.plan.dtype)


def _each_chunk(
    e: Emitter, plan: NormalizedChannels, body: Callable[[list[Index], Value | None], None]
) -> None:
    """Do something for some vectors at a time: the columns of each, the mask of the last."""
    lanes = plan.lanes
    width = VECTORS * lanes
    whole = plan.channels - plan.channels % width
    if whole:
        with e.loop(whole, step=width, name="chunk") as start:
            body([start + v * lanes for v in range(VECTORS)], None)
    if whole < plan.channels:
        columns: list[Index] = list(range(whole, plan.channels, lanes))
        rest = plan.channels % lanes
        body(columns, first_lanes(e.index(rest), lanes) if rest else None)


def _masks(columns: list[Index], last: Value | None) -> list[Value | None]:
    return [*[None] * (len(columns) - 1), last]


def _write_sums(
    k: Kernel, plan: NormalizedChannels, name: str, term: Callable[[Phase], Term]
) -> None:
    """For each block and channel, the sum of terms."""
    with k.phase(plan.units, plan.work, name) as p:
        made = p.workspace("sums")
        source, terms = p.source(0), term(p)
        with p.units() as unit:
            _sum_rows(_Walk(p, plan, unit), source, terms, made + unit * plan.pitch)


def _sum_rows(walk: _Walk, source: Source, term: Term, made: Pointer) -> None:
    """The sums of one block."""
    e, plan = walk.e, walk.plan
    line = walk.image * plan.pitch

    def sum_up(columns: list[Index], last: Value | None) -> None:
        spots = list(zip(columns, _masks(columns, last), strict=True))

        def add_row(number: Value, sums: list[Value]) -> list[Value]:
            row = source.row(walk.first + number)
            values = [walk.loaded(row, column, mask) for column, mask in spots]
            places = [line + column for column in columns]
            terms = [term(value, place) for value, place in zip(values, places, strict=True)]
            return [total + added for total, added in zip(sums, terms, strict=True)]

        zero = e.constant(plan.dtype, 0, plan.lanes)
        sums = e.fold(walk.count, [zero] * len(columns), add_row, name="row")
        for column, total in zip(columns, sums, strict=True):
            made.store(total, column)

    _each_chunk(e, plan, sum_up)


def _squares(plan: NormalizedChannels) -> Callable[[Phase], Term]:
    """The squares of what differs from the mean."""

    def open_means(p: Phase) -> Term:
        means = p.workspace("means")

        def square(x: Value, place: Index) -> Value:
            centred = x - means.load(place, plan.lanes)
            return centred * centred

        return square

    return open_means


def _write_joined(k: Kernel, plan: NormalizedChannels, name: str, finish: Finish) -> None:
    """Join the sums of blocks and of the channels of a group; every channel gets what follows."""
    work = work_of(plan.units * plan.channels, 1)
    with k.phase(plan.images, work, name) as p:
        sums, made = p.workspace("sums"), p.workspace(name)
        with p.units() as image:
            line = made + image * plan.pitch
            _join_blocks(p.e, plan, sums + image * (plan.blocks * plan.pitch), line)
            _join_channels(p.e, plan, line, finish)


def _join_blocks(e: Emitter, plan: NormalizedChannels, sums: Pointer, line: Pointer) -> None:
    """For each channel, the sum of what the blocks of an image have found."""

    def join(columns: list[Index], _: Value | None) -> None:
        def add_block(block: Value, totals: list[Value]) -> list[Value]:
            place = sums + block * plan.pitch
            found = [place.load(column, plan.lanes) for column in columns]
            return [total + added for total, added in zip(totals, found, strict=True)]

        zero = e.constant(plan.dtype, 0, plan.lanes)
        totals = e.fold(plan.blocks, [zero] * len(columns), add_block, name="block")
        for column, total in zip(columns, totals, strict=True):
            line.store(total, column)

    _each_chunk(e, plan, join)


def _join_channels(e: Emitter, plan: NormalizedChannels, line: Pointer, finish: Finish) -> None:
    """What follows from the sum of a group, at each of its channels."""
    zero = e.constant(plan.dtype, 0)
    with e.loop(plan.groups, name="group") as group:
        own = line + group * plan.size
        (total,) = e.fold(plan.size, [zero], lambda at, sums: [sums[0] + own.load(at)])
        found = finish(total)
        with e.loop(plan.size, name="channel") as channel:
            own.store(found, channel)


def _write_results(k: Kernel, plan: NormalizedChannels) -> None:
    """(x - mean) factor scale + bias."""
    with k.phase(plan.units, plan.work, "results") as p:
        results = _Results(p, plan)
        with p.units() as unit:
            results.write(_Walk(p, plan, unit))


class _Results:
    """The last phase while it is being written."""

    def __init__(self, p: Phase, plan: NormalizedChannels) -> None:
        self.plan = plan
        self.means, self.factors = p.workspace("means"), p.workspace("factors")
        self.x, self.sink = p.source(0), p.sink()
        self.scale, self.bias = p.source(1).row(0), p.source(2).row(0)

    def write(self, walk: _Walk) -> None:
        """The results of one block."""
        lanes, line = self.plan.lanes, walk.image * self.plan.pitch

        def put(columns: list[Index], last: Value | None) -> None:
            spots = list(zip(columns, _masks(columns, last), strict=True))
            means = [self.means.load(line + c, lanes) for c in columns]
            scales = [walk.loaded(self.scale, c, mask) for c, mask in spots]
            loads = [self.factors.load(line + c, lanes) for c in columns]
            factors = [factor * scale for factor, scale in zip(loads, scales, strict=True)]
            biases = [walk.loaded(self.bias, c, mask) for c, mask in spots]
            with walk.e.loop(walk.count, name="row") as number:
                row, out = self.x.row(walk.first + number), self.sink.row(walk.first + number)
                for (c, mask), mean, factor, bias in zip(
                    spots, means, factors, biases, strict=True
                ):
                    out.put(c, fma(walk.loaded(row, c, mask) - mean, factor, bias), mask)

        _each_chunk(walk.e, self.plan, put)
