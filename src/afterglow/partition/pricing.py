"""From a graph to a problem: what tasks take on each device, what they hold, and what they pass on.

The time of a task is that of its nodes as a module of their own. Tasks that are equal but for names
and the numbers in their weights are priced once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

from afterglow.graph import Constant, Function, Module, Node, structural_hash
from afterglow.partition.extract import PartModule, extract, output_values
from afterglow.partition.problem import Edge, Link, Problem, Task
from afterglow.partition.tasks import TaskNodes, tasks_of
from afterglow.support.errors import UnsupportedError, UsageError
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types.dtype import boolean, i32, i64

Price: TypeAlias = Callable[[str, Module], "float | None"]
"""Seconds that a device takes for a module; None, or an `UnsupportedError`, if it cannot."""

_MOST_ELEMENTS = 8
"""Elements of a constant that counts: shapes, indices, and how often loops run."""


@dataclass(frozen=True)
class DeviceCosts:
    """Devices, and what they take: the first is the host, from which inputs come.

    Outputs go there, too. It may be the memory of this process, in which nothing is computed.
    """

    names: Sequence[str]
    price: Price
    links: Mapping[tuple[int, int], Link]
    memories: Sequence[int | None] = ()
    host_computes: bool = True

    @property
    def computing(self) -> range:
        """The devices that compute, by number."""
        return range(0 if self.host_computes else 1, len(self.names))


@dataclass(frozen=True)
class PricedTasks:
    """The tasks of a function, and the problem of placing them."""

    nodes: Sequence[TaskNodes]
    free: Problem
    """As it would be if users had placed nothing."""
    problem: Problem
    """The same, but each task that a user placed can be nowhere else."""

    def is_given(self, task: int) -> bool:
        """Whether a user placed a task."""
        return self.problem.tasks[task] is not self.free.tasks[task]


def price_tasks(
    module: Module, devices: DeviceCosts, given: Mapping[Node, str] | None = None
) -> PricedTasks:
    """The tasks of a module's main function and what they cost; some nodes have a given device."""
    return _Pricing(module, devices, given or {}).run()


class _Pricing:
    """Prices the tasks of a module."""

    def __init__(self, module: Module, devices: DeviceCosts, given: Mapping[Node, str]) -> None:
        self.module, self.devices, self.given = module, devices, given
        self.known: dict[tuple[int, str], float | None] = {}
        self.reasons: dict[tuple[int, str], str] = {}

    def run(self) -> PricedTasks:
        """All of it."""
        nodes, parts = self._tasks()
        weights: dict[int, int] = {}
        sizes: list[int] = []
        pairs = [*zip(nodes, parts, strict=True)]
        tasks = [self._task(task, part, weights, sizes) for task, part in pairs]
        devices = self.devices
        free = Problem(
            devices.names,
            tasks,
            _edges(self.module.main, parts),
            devices.links,
            sizes,
            devices.memories,
        )
        bound = [self._bound(n, t, part) for (n, part), t in zip(pairs, tasks, strict=True)]
        return PricedTasks(nodes, free, replace(free, tasks=bound))

    def _tasks(self) -> tuple[list[TaskNodes], list[PartModule]]:
        """The tasks, and their modules: none joins nodes that different devices can compute."""
        nodes = tasks_of(self.module.main, self.given.get)
        parts = extract(self.module, [task.nodes for task in nodes])
        able = self._able_of_nodes(nodes, parts)
        if able:
            nodes = tasks_of(self.module.main, lambda node: (self.given.get(node), able.get(node)))
            parts = extract(self.module, [task.nodes for task in nodes])
        return nodes, parts

    def _able_of_nodes(
        self, nodes: Sequence[TaskNodes], parts: Sequence[PartModule]
    ) -> dict[Node, frozenset[int]]:
        """The devices of each node that some cannot compute, of tasks with several nodes."""
        groups: list[Sequence[Node]] = []
        apart: dict[int, Node] = {}
        for task, part in zip(nodes, parts, strict=True):
            able = self._able(part)
            if (
                len(task.nodes) > 1
                and len(able) < len(self.devices.computing)
                and not part.module.states
            ):
                apart.update((len(groups) + place, node) for place, node in enumerate(task.nodes))
                groups += [[node] for node in task.nodes]
            else:
                groups.append(task.nodes)
        if not apart:
            return {}
        single = extract(self.module, groups)
        found = {node: self._able(single[place]) for place, node in apart.items()}
        return {
            node: able for node, able in found.items() if len(able) < len(self.devices.computing)
        }

    def _able(self, part: PartModule) -> frozenset[int]:
        """The devices that can compute a module."""
        return frozenset(self._seconds(part))

    def _seconds(self, part: PartModule) -> dict[int, float]:
        """What each device that can compute a module takes for it."""
        key = structural_hash(part.module.main, _content)
        found = ((device, self._price(device, key, part)) for device in self.devices.computing)
        return {device: seconds for device, seconds in found if seconds is not None}

    def _price(self, device: int, key: str, part: PartModule) -> float | None:
        if (device, key) not in self.known:
            try:
                price = self.devices.price(self.devices.names[device], part.module.clone())
            except UnsupportedError as error:
                price, self.reasons[device, key] = None, error.what
            self.known[device, key] = price
        return self.known[device, key]

    def _task(
        self, nodes: TaskNodes, part: PartModule, weights: dict[int, int], sizes: list[int]
    ) -> Task:
        """A task, whose constants are numbered by their arrays."""
        constants = part.module.constants.values()
        read = {id(constant.content): constant.type.nbytes for constant in constants}
        for array, nbytes in read.items():
            if array not in weights:
                weights[array] = len(sizes)
                sizes.append(int(nbytes))
        memory = sum(int(state.type.nbytes) for state in part.module.states.values())
        held = tuple(sorted(weights[array] for array in read))
        return Task(nodes.name, self._seconds(part), memory, held)

    def _bound(self, nodes: TaskNodes, task: Task, part: PartModule) -> Task:
        """A task that is where its user placed it, if so."""
        given = {node: self.given[node] for node in nodes.nodes if node in self.given}
        names = list(dict.fromkeys(given.values()))
        if not names:
            return task
        if len(names) > 1:
            raise _apart(given)
        device = self.devices.names.index(names[0])
        if device not in task.seconds:
            key = device, structural_hash(part.module.main, _content)
            raise _unable(next(iter(given)), names[0], self.reasons.get(key, ""))
        return replace(task, seconds={device: task.seconds[device]})


def _content(constant: Constant) -> str:
    """What counts of a constant for costs: small integers decide shapes and numbers of turns."""
    counts = constant.type.dtype in (boolean, i32, i64) and constant.type.size <= _MOST_ELEMENTS
    return str(constant.data.tolist()) if counts else ""


def _edges(function: Function, parts: Sequence[PartModule]) -> list[Edge]:
    """The values that pass between tasks, and to and from the host."""
    sizes: dict[str, int] = {value.name: int(value.type.nbytes) for value in function.inputs}
    producers: dict[str, int | None] = dict.fromkeys(sizes)
    readers: dict[str, list[int]] = {name: [] for name in sizes}
    for number, part in enumerate(parts):
        for name in part.reads:
            readers[name].append(number)
        for output in part.module.main.outputs:
            if output.name not in producers:
                producers[output.name] = number
                readers[output.name] = []
                sizes[output.name] = int(output.value.type.nbytes)
    returned = {*output_values(function)}
    return [
        Edge(sizes[name], producer, tuple(readers[name]), name in returned, name)
        for name, producer in producers.items()
        if producer is not None or readers[name]
    ]


def _apart(given: Mapping[Node, str]) -> UsageError:
    """The error about nodes of one task that a user placed on different devices."""
    first, device = next(iter(given.items()))
    second, other = next((n, d) for n, d in given.items() if d != device)
    return UsageError(
        f"node {first.origin or first.name!r} is placed on {device!r} and node "
        f"{second.origin or second.name!r} on {other!r}, but they work on the same state",
        help="place them on one device",
    )


def _unable(node: Node, device: str, reason: str) -> UnsupportedError:
    return UnsupportedError(
        f"device {device!r} cannot compute node {node.origin or node.name!r}, which is placed there"
        + (f": {reason}" if reason else ""),
        help="place it on another device, or leave it to the partitioner",
    )
