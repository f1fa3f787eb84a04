"""Batches that are split over devices: each computes all of a model for some of the items."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from afterglow.driver.stages import Stages
from afterglow.graph import Module
from afterglow.instr import Program
from afterglow.partition.estimate import estimate_seconds
from afterglow.partition.split import ItemCosts, batch_of, items_of, shares
from afterglow.runtime.logical_device import LogicalDevice
from afterglow.runtime.partitioned.graph import Part, PartGraph, Rows
from afterglow.runtime.rates import Rates
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types import Interface, Port


@dataclass(frozen=True)
class BatchDevice:
    """A device, how it compiles, and how fast it is."""

    logical: LogicalDevice
    stages: Stages
    rates: Rates

    def costs(self, module: Module, items: int) -> ItemCosts:
        """What it takes for items of a batch, by what it takes for one and for all of them."""
        seconds, nbytes = self._measures(module, 1)
        all_seconds, all_bytes = self._measures(module, items)
        more = max(1, items - 1)
        each, size = (all_seconds - seconds) / more, max(1.0, (all_bytes - nbytes) / more)
        if each <= 0:  # not worth a difference: one is as good as several
            each = all_seconds / items
        limit = self.logical.memory
        room = None if limit is None else max(0, int((limit - nbytes + size) / size))
        return ItemCosts(each, max(0.0, seconds - each), room)

    def _measures(self, module: Module, items: int) -> tuple[float, float]:
        """Seconds and bytes of a program for some items."""
        program = Stages(self.stages.options.for_costs).plan_part(items_of(module, 0, items))
        return estimate_seconds(program, self.rates), _nbytes(program)

    def part(self, module: Module, start: int, stop: int) -> tuple[Part, Program]:
        """Some items of a batch, compiled, and their program."""
        own = items_of(module, start, stop)
        inputs = [
            value.name if value.type == whole.type else f"{value.name}[{start}:{stop}]"
            for value, whole in zip(own.main.inputs, module.main.inputs, strict=True)
        ]
        outputs = [f"{output.name}[{start}:{stop}]" for output in own.main.outputs]
        program, artifact = self.stages.compile_part(own)
        return Part(self.logical, artifact, tuple(inputs), tuple(outputs)), program


def _nbytes(program: Program) -> int:
    """Bytes that a program takes on a device: constants, arena, inputs and outputs."""
    ports = (*program.constants, *program.inputs, *program.outputs)
    return (program.arena_bytes or 0) + sum(buffer.type.nbytes for buffer in ports)


@dataclass(frozen=True)
class BatchShare:
    """The items of a batch that a device computes, and what it takes for them."""

    device: str
    items: int
    seconds: float


def batch_shares(module: Module, devices: Sequence[BatchDevice]) -> list[BatchShare]:
    """The share of each device in the batch of an optimised module."""
    items = batch_of(module.main)
    costs = [device.costs(module, items) for device in devices]
    triples = zip(devices, shares(items, costs), costs, strict=True)
    return [BatchShare(d.logical.name, count, c.seconds(count)) for d, count, c in triples]


def split_batch(
    module: Module, devices: Sequence[BatchDevice]
) -> tuple[PartGraph, Interface, list[Program]]:
    """The parts of an optimised module whose batch is split, what they take, and their programs."""
    main = module.main
    counts = [share.items for share in batch_shares(module, devices)]
    parts: list[Part] = []
    programs: list[Program] = []
    rows: dict[str, Rows] = {}
    for device, start, stop in _ranges(devices, counts):
        part, program = device.part(module, start, stop)
        for value, name in zip(main.inputs, part.inputs, strict=True):
            if name != value.name:
                rows[name] = Rows(value.name, start, stop)
        parts.append(part)
        programs.append(program)
    inputs = tuple(value.name for value in main.inputs)
    outputs = tuple(output.name for output in main.outputs)
    columns = zip(outputs, zip(*(part.outputs for part in parts), strict=True), strict=True)
    graph = PartGraph(inputs, outputs, tuple(parts), rows, dict(columns))
    return graph, _interface(module, parts[0].artifact.interface), programs


def _ranges(
    devices: Sequence[BatchDevice], counts: Sequence[int]
) -> Iterator[tuple[BatchDevice, int, int]]:
    """The devices that have items, and which these are."""
    start = 0
    for device, count in zip(devices, counts, strict=True):
        if count:
            yield device, start, start + count
        start += count


def _interface(module: Module, part: Interface) -> Interface:
    """What a whole batch takes and gives, by the ports of some of its items."""
    main = module.main
    inputs = [_whole(p, v.type.shape) for p, v in zip(part.inputs, main.inputs, strict=True)]
    outputs = [
        _whole(port, output.value.type.shape)
        for port, output in zip(part.outputs, main.outputs, strict=True)
    ]
    return Interface(tuple(inputs), tuple(outputs))


def _whole(port: Port, shape: tuple[int, ...]) -> Port:
    return replace(port, type=port.type.with_shape(shape))
