"""A placement as users see it: what is where and why, what crosses, and what that should take.

It prints as text, which `parse_plan` reads back, and is drawn by `picture`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from json import loads
from typing import TypeVar

from afterglow.partition.assign import mostly_on
from afterglow.partition.pricing import PricedTasks
from afterglow.partition.problem import Placement, Problem
from afterglow.partition.reasons import Reasons
from afterglow.support.errors import ParseError
from afterglow.support.lazy_dataclass import dataclass
from afterglow.support.names import PLAIN_NAME, spell

BuiltT = TypeVar("BuiltT")


@dataclass(frozen=True)
class DeviceUse:
    """What a device does in a run of a partitioned model, and what it would do alone."""

    name: str
    tasks: int
    seconds: float
    """The time in which it computes."""
    nbytes: int
    """What it needs for weights, state and values."""
    memory: int | None = None
    """What it has; None for no limit."""
    alone: float | None = None
    """The time of a run on this device alone; None if it cannot."""
    computes: bool = True
    """Whether it is more than memory that inputs come from and outputs go to."""


@dataclass(frozen=True)
class PlacedTask:
    """Nodes that a device computes, and why it does."""

    name: str
    device: str
    seconds: float
    nodes: tuple[str, ...]
    """The names of its nodes in the model."""
    reads: tuple[str, ...]
    """The values that it takes."""
    gives: tuple[str, ...]
    """The values that other tasks or callers need of it."""
    reason: str


@dataclass(frozen=True)
class Transfer:
    """A value that passes from one device to another."""

    value: str
    source: str
    to: str
    nbytes: int
    seconds: float


@dataclass(frozen=True)
class PartitionPlan:
    """Where the tasks of a model are computed, in an order in which they can be."""

    objective: str
    seconds: float
    """The time of one run, in which nothing overlaps."""
    period: float
    """The time of the busiest device: that from one request to the next in a pipeline."""
    devices: tuple[DeviceUse, ...]
    tasks: tuple[PlacedTask, ...]
    transfers: tuple[Transfer, ...]

    @staticmethod
    def of(priced: PricedTasks, placement: Placement, objective: str) -> PartitionPlan:
        """The plan that a placement is."""
        problem, reasons = priced.problem, Reasons(priced, placement, objective)
        names = problem.devices
        return PartitionPlan(
            objective,
            _rounded(problem.seconds(placement)),
            _rounded(problem.load(placement)),
            tuple(_device_use(priced.free, placement, d) for d in range(len(names))),
            tuple(_placed(priced, t, d, reasons) for t, d in enumerate(placement)),
            tuple(
                Transfer(
                    edge.name,
                    names[source],
                    names[to],
                    edge.nbytes,
                    _rounded(problem.crossing(edge, source, to)),
                )
                for edge, source, to in problem.transfers(placement)
            ),
        )

    def __str__(self) -> str:
        return print_plan(self)


def _rounded(seconds: float) -> float:
    """Whole nanoseconds: what the text can hold."""
    return round(seconds, 9)


def _device_use(problem: Problem, placement: Placement, device: int) -> DeviceUse:
    if device not in problem.computing:
        return DeviceUse(problem.devices[device], 0, 0.0, 0, computes=False)
    own = [number for number, place in enumerate(placement) if place == device]
    whole = mostly_on(problem, device)
    can = {*whole} <= {device} and problem.fits(whole)
    return DeviceUse(
        problem.devices[device],
        len(own),
        _rounded(sum(problem.tasks[number].seconds[device] for number in own)),
        problem.held_by(own),
        problem.memories[device] if problem.memories else None,
        _rounded(problem.seconds(whole)) if can else None,
    )


def _placed(priced: PricedTasks, task: int, device: int, reasons: Reasons) -> PlacedTask:
    problem = priced.problem
    edges = problem.edges_of[task]
    return PlacedTask(
        problem.tasks[task].name,
        problem.devices[device],
        _rounded(problem.tasks[task].seconds[device]),
        tuple(dict.fromkeys(node.origin or node.name for node in priced.nodes[task].nodes)),
        tuple(edge.name for edge in edges if task in edge.readers),
        tuple(edge.name for edge in edges if edge.producer == task),
        reasons.of(task),
    )


def print_plan(plan: PartitionPlan) -> str:
    """The whole plan, a line for each device and transfer, some for each task."""
    return "\n".join(_lines(plan)) + "\n"


def _lines(plan: PartitionPlan) -> Iterator[str]:
    yield (
        f"partition for {plan.objective}: {exact_time(plan.seconds)} a run, "
        f"{exact_time(plan.period)} a request in a pipeline"
    )
    yield from map(_device_line, plan.devices)
    for task in plan.tasks:
        where = f"{_spelled(task.name)} on {_spelled(task.device)}"
        yield f"task {where}: {exact_time(task.seconds)}"
        yield f"  nodes {_listed(task.nodes)}"
        yield f"  reads {_listed(task.reads)}".rstrip()
        yield f"  gives {_listed(task.gives)}".rstrip()
        yield f"  why: {task.reason}"
    for each in plan.transfers:
        way = f"{_spelled(each.source)} to {_spelled(each.to)}"
        size = f"{each.nbytes:,} B, {exact_time(each.seconds)}"
        yield f"transfer {_spelled(each.value)} from {way}: {size}"


def _device_line(device: DeviceUse) -> str:
    name = _spelled(device.name)
    if not device.computes:
        return f"device {name}: memory only"
    limit = "" if device.memory is None else f" of {device.memory:,} B"
    alone = "cannot run alone" if device.alone is None else f"alone {exact_time(device.alone)}"
    return (
        f"device {name}: {device.tasks} tasks, {exact_time(device.seconds)}, "
        f"{device.nbytes:,} B{limit}, {alone}"
    )


def exact_time(seconds: float) -> str:
    """A time in microseconds, to the nanosecond."""
    return f"{seconds * 1e6:,.3f} µs"


def _spelled(name: str) -> str:
    return spell("", name)


def _listed(names: Iterable[str]) -> str:
    return ", ".join(map(_spelled, names))


_NAME = rf'({PLAIN_NAME}|"(?:[^"\\]|\\.)*")'
_TIME = r"([\d,.]+) µs"
_COUNT = r"([\d,]+)"
_HEAD = re.compile(rf"partition for (\w+): {_TIME} a run, {_TIME} a request in a pipeline")
_DEVICE = re.compile(
    rf"device {_NAME}: (?:memory only|{_COUNT} tasks, {_TIME}, {_COUNT} B(?: of {_COUNT} B)?, "
    rf"(?:alone {_TIME}|cannot run alone))"
)
_TASK = re.compile(rf"task {_NAME} on {_NAME}: {_TIME}")
_LIST = re.compile(rf"  (nodes|reads|gives)(?: ({_NAME}(?:, {_NAME})*))?")
_WHY = re.compile(r"  why: (.*)")
_TRANSFER = re.compile(rf"transfer {_NAME} from {_NAME} to {_NAME}: {_COUNT} B, {_TIME}")


def parse_plan(text: str) -> PartitionPlan:
    """The plan that a text was printed from."""
    return _Parser(text).run()


class _Parser:
    """Reads a plan line by line."""

    def __init__(self, text: str) -> None:
        self.lines = text.splitlines()
        self.place = 0

    def run(self) -> PartitionPlan:
        """The plan."""
        head = self._next(_HEAD)
        devices = tuple(self._all(_DEVICE, self._device))
        tasks = tuple(self._all(_TASK, self._task))
        transfers = tuple(self._all(_TRANSFER, self._transfer))
        if self.place < len(self.lines):
            raise self._error()
        return PartitionPlan(
            head[1], _seconds(head[2]), _seconds(head[3]), devices, tasks, transfers
        )

    def _next(self, pattern: re.Pattern[str]) -> re.Match[str]:
        line = self.lines[self.place] if self.place < len(self.lines) else ""
        match = pattern.fullmatch(line)
        if match is None:
            raise self._error()
        self.place += 1
        return match

    def _all(
        self, pattern: re.Pattern[str], build: Callable[[re.Match[str]], BuiltT]
    ) -> Iterator[BuiltT]:
        """What lines of one kind stand for, as long as there are more of them."""
        while self.place < len(self.lines) and pattern.fullmatch(self.lines[self.place]):
            yield build(self._next(pattern))

    def _device(self, line: re.Match[str]) -> DeviceUse:
        name, tasks, seconds, nbytes, memory, alone = line.groups()
        if tasks is None:
            return DeviceUse(_name(name), 0, 0.0, 0, computes=False)
        return DeviceUse(
            _name(name),
            _count(tasks),
            _seconds(seconds),
            _count(nbytes),
            None if memory is None else _count(memory),
            None if alone is None else _seconds(alone),
        )

    def _task(self, line: re.Match[str]) -> PlacedTask:
        name, device, seconds = line.groups()
        nodes, reads, gives = (self._names(kind) for kind in ("nodes", "reads", "gives"))
        why = self._next(_WHY)[1]
        return PlacedTask(_name(name), _name(device), _seconds(seconds), nodes, reads, gives, why)

    def _names(self, kind: str) -> tuple[str, ...]:
        line = self._next(_LIST)
        if line[1] != kind:
            self.place -= 1
            raise self._error()
        return tuple(_name(each[0]) for each in re.finditer(_NAME, line[2] or ""))

    def _transfer(self, line: re.Match[str]) -> Transfer:
        value, source, to, nbytes, seconds = line.groups()
        return Transfer(_name(value), _name(source), _name(to), _count(nbytes), _seconds(seconds))

    def _error(self) -> ParseError:
        line = self.lines[self.place] if self.place < len(self.lines) else "the end"
        return ParseError(f"not a partition plan: {line!r}", where=f"in line {self.place + 1}")


def _name(text: str) -> str:
    return str(loads(text)) if text.startswith('"') else text


def _count(text: str) -> int:
    return int(text.replace(",", ""))


def _seconds(text: str) -> float:
    return _rounded(float(text.replace(",", "")) * 1e-6)
