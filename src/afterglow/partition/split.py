"""Batches that are split over devices: how many items each gets, and the module for its items.

The module for some items is found backwards from the outputs, by `Op.band`: how an op computes a
part of its result. What does not depend on the batch is computed by each device.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heapify, heappop, heappush

import numpy as np

from afterglow.graph import Band, Constant, Cut, Function, Module, Node, Op, Placeholder, Value
from afterglow.graph.builder import infer_types
from afterglow.graph.function import subgraphs_of
from afterglow.support.errors import MemoryLimitError, TypeRuleError, UnsupportedError
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types import TensorType


@dataclass(frozen=True)
class ItemCosts:
    """What a device takes for items of a batch."""

    each: float
    """Seconds for an item."""
    fixed: float = 0.0
    """Seconds besides, if it has any items."""
    most: int | None = None
    """Items that its memory has room for; None for any number."""

    def seconds(self, items: int) -> float:
        """What it takes for so many items."""
        return self.fixed + items * self.each if items else 0.0


def shares(items: int, devices: Sequence[ItemCosts]) -> list[int]:
    """The number of items of each device, so that all are done as early as possible.

    Each item goes where it is done first. So the last is done at the earliest time by which the
    devices can do as many.
    """
    counts = [0] * len(devices)
    ends = [(d.fixed + d.each, number) for number, d in enumerate(devices) if d.most != 0]
    heapify(ends)
    for _ in range(items):
        if not ends:
            room = sum(device.most or 0 for device in devices)
            raise MemoryLimitError(
                f"a batch of {items} items does not fit the devices: they have room for {room}",
                help="add a device, allow more memory, or make the batch smaller",
            )
        end, number = heappop(ends)
        counts[number] += 1
        if counts[number] != devices[number].most:
            heappush(ends, (end + devices[number].each, number))
    return counts


def batch_of(function: Function) -> int:
    """The number of items of a batch: the extent of the first axis of all outputs."""
    extents = [output.value.type.shape[:1] for output in function.outputs]
    if len({*extents}) != 1 or extents[0] == ():
        raise UnsupportedError(
            "the batch cannot be split over devices: outputs have different first extents",
            help="leave out split_batch",
        )
    if any(output.value.type.is_ranged for output in function.outputs):
        raise UnsupportedError(
            "the batch cannot be split over devices: its extent is not known",
            help="give it one: dims={NAME: EXTENT}",
        )
    return int(extents[0][0])


def items_of(module: Module, start: int, stop: int) -> Module:
    """A module that computes some items of a batch from the same items of its inputs.

    Inputs that do not belong to the batch have the types that they had. It is an error if an item
    of an output depends on other items.
    """
    return _Items(module.main, Cut(0, start, stop)).run()


def equal_items(module: Module, count: int) -> Module | None:
    """A module that computes any so many items in a row of a batch; None if there is none.

    There is one if items are computed independently of each other, all in the same way, and the
    number divides the batch.
    """
    first, last = (_Items(module.main, cut) for cut in _ends(module.main, count))
    try:
        part, other = first.run(), last.run()
    except UnsupportedError:
        return None
    alike = [node.op for node in part.main.nodes] == [node.op for node in other.main.nodes]
    return part if alike and first.cuts_equal_rows() else None


def _ends(function: Function, count: int) -> tuple[Cut, Cut]:
    items = batch_of(function)
    return Cut(0, 0, count), Cut(0, items - count, items)


class _Items:
    """Finds which part of each value is needed, and makes the nodes that compute it."""

    def __init__(self, function: Function, own: Cut) -> None:
        self.function, self.own = function, own
        self.needs: dict[Value, Cut | None] = {}
        """The part of each value that is needed; None for all of it."""
        self.bands: dict[Node, Band] = {}
        self.target = Function(function.name, Module(function.module.name))
        self.values: dict[Value, Value] = {}
        self.constants: dict[tuple[Constant, Cut | None], Constant] = {}

    def run(self) -> Module:
        """The module."""
        self._check_function()
        for output in self.function.outputs:
            self._need(output.value, self.own, None)
        for node in reversed([*self.function.nodes]):
            self._find_part(node)
        for value in self.function.inputs:
            if self.needs.get(value) not in (None, self.own):
                raise _dependent(value.name)
            self._take(value)
        for node in self.function.nodes:
            if any(result in self.needs for result in node.results):
                self._emit(node)
        for output in self.function.outputs:
            self.target.output(output.name, self._part_of(output.value, self.own))
            self.target.outputs[-1].quantization = output.quantization
        return self.target.module

    def cuts_equal_rows(self) -> bool:
        """Whether the constants of which it takes parts have equal parts for all items."""
        rows = (np.moveaxis(c.data, cut.axis, 0) for c, cut in self.constants if cut is not None)
        return all(bool(np.all(each == each[:1])) for each in rows)

    def _check_function(self) -> None:
        if self.function.module.states:
            raise UnsupportedError(
                "the batch cannot be split over devices: the model has state",
                help="leave out split_batch",
            )

    def _need(self, value: Value, cut: Cut | None, node: Node | None) -> None:
        """Note which part of a value is needed; it is an error if another one is, too."""
        if isinstance(value, Constant):
            return
        if self.needs.setdefault(value, cut) != cut:
            raise _dependent(value.name if node is None else node.origin or node.name)

    def _find_part(self, node: Node) -> None:
        """Find which parts of its operands a node needs."""
        cuts = {self.needs[result] for result in node.results if result in self.needs}
        if not cuts:
            return
        if len(cuts) > 1 or not node.op.pure or node.predicate is not None or subgraphs_of(node.op):
            raise _dependent(node.origin or node.name)
        (cut,) = cuts
        band = Band(node.op, (None,) * len(node.operands)) if cut is None else _band(node, cut)
        if band is None or band.skip:
            raise _dependent(node.origin or node.name)
        self.bands[node] = band
        for operand, part in zip(node.operands, band.cuts, strict=True):
            if operand is not None:
                self._need(operand, part, node)

    def _take(self, value: Placeholder) -> None:
        cut = self.needs.get(value)
        type = value.type if cut is None else cut.of(value.type)
        self.values[value] = copy = self.target.input(value.name, type)
        copy.quantization = value.quantization

    def _part_of(self, value: Value, cut: Cut | None) -> Value:
        """What stands for a part of a value, which is the part that is needed of it."""
        if not isinstance(value, Constant):
            return self.values[value]
        if (value, cut) not in self.constants:
            data = value.data
            if cut is not None:
                data = data[(slice(None),) * cut.axis + (slice(cut.start, cut.stop),)]
            type = value.type if cut is None else cut.of(value.type)
            self.constants[value, cut] = self.target.module.constant(value.name, data, type)
        return self.constants[value, cut]

    def _emit(self, node: Node) -> None:
        """Make the node that computes the part that is needed."""
        band = self.bands[node]
        pairs = zip(node.operands, band.cuts, strict=True)
        operands = tuple(None if v is None else self._part_of(v, cut) for v, cut in pairs)
        types = _types(band.op, operands)
        wanted = tuple(self._needed_type(result) for result in node.results)
        if types != wanted:
            raise _dependent(node.origin or node.name)
        names = [self.target.names.claim(result.name) for result in node.results]
        copy = Node(band.op, operands, types, names, node.origins)
        self.target.insert(copy)
        self.values.update(zip(node.results, copy.results, strict=True))

    def _needed_type(self, value: Value) -> TensorType:
        cut = self.needs.get(value)
        return value.type if cut is None else cut.of(value.type)


def _band(node: Node, cut: Cut) -> Band | None:
    types = [None if operand is None else operand.type for operand in node.operands]
    return node.op.band(cut, node.results[0].type, types)


def _types(op: Op, operands: tuple[Value | None, ...]) -> tuple[TensorType, ...]:
    try:
        return infer_types(op, operands)
    except TypeRuleError:
        return ()


def _dependent(name: str) -> UnsupportedError:
    return UnsupportedError(
        f"the batch cannot be split over devices: at {name!r}, items depend on each other",
        help="leave out split_batch",
    )
