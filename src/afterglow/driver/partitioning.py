"""Compiling a model for several devices: each computes what the partitioner gives it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from math import inf

from afterglow.backends.capabilities import Profiling, Tuning
from afterglow.driver.batch_split import BatchDevice, BatchShare, batch_shares, split_batch
from afterglow.driver.device_rates import rates_of
from afterglow.driver.devices import find_device
from afterglow.driver.options import Options
from afterglow.driver.stages import Stages, find_backend
from afterglow.graph import Function, Module
from afterglow.instr import Program
from afterglow.partition.config import PartitionConfig
from afterglow.partition.cut import Run, cut
from afterglow.partition.estimate import estimate_steps
from afterglow.partition.extract import PartModule, extract, output_values
from afterglow.partition.measure import measure_steps
from afterglow.partition.place import place
from afterglow.partition.plan import PartitionPlan
from afterglow.partition.pricing import DeviceCosts, PricedTasks, price_tasks
from afterglow.partition.problem import Link, Placement
from afterglow.runtime import CompiledFunction
from afterglow.runtime.device import LoadOptions
from afterglow.runtime.logical_device import LogicalDevice
from afterglow.runtime.partitioned.executable import PartitionedExecutable
from afterglow.runtime.partitioned.graph import DEVICE, Part, PartGraph, to_artifact
from afterglow.runtime.rates import Rates
from afterglow.support.errors import MemoryLimitError
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types import Interface, Port

MEASURED_TASKS = 100
"""The part of the time for tuning in which each task is measured, on devices that can time it."""
HOST_MEMORY = "host memory"
"""Where inputs come from and outputs go to: no device of a user, and it computes nothing."""
ATTEMPTS = 4
"""How often a model is placed anew because a device needs more memory than was estimated."""


@dataclass(frozen=True)
class PlacedTasks:
    """The tasks of a module, and where each of them is computed."""

    priced: PricedTasks
    placement: Placement

    @cached_property
    def runs(self) -> list[Run]:
        """The tasks of each part."""
        return cut(self.placement, self.priced.problem.follows)

    def parts(self, module: Module) -> list[PartModule]:
        """The part of the module that each run computes."""
        tasks = self.priced.nodes
        groups = [[node for t in run.tasks for node in tasks[t].nodes] for run in self.runs]
        return extract(module, groups)


@dataclass(frozen=True)
class _Names:
    """What a model calls what it takes and gives."""

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]

    @staticmethod
    def of(function: Function) -> _Names:
        inputs = tuple(placeholder.name for placeholder in function.inputs)
        return _Names(inputs, tuple(output.name for output in function.outputs))


@dataclass(frozen=True)
class Partitioned:
    """The stages of a model that several devices run."""

    options: Options

    @cached_property
    def whole(self) -> Stages:
        """The stages before it is cut, which serve every device."""
        return Stages(replace(self.options, devices=(), placing=None))

    @cached_property
    def stages(self) -> tuple[Stages, ...]:
        """The stages of what each device computes."""
        return tuple(Stages(self._options(device)) for device in self.options.devices)

    def _options(self, device: LogicalDevice) -> Options:
        """The options for a device, which is tuned if it can be."""
        plain = replace(self.options.on(device), tune=None)
        can_tune = isinstance(find_backend(plain), Tuning)
        return replace(plain, tune=self.options.tune) if can_tune else plain

    @cached_property
    def rates(self) -> tuple[Rates, ...]:
        """How fast each device is."""
        self._tell("measure devices")
        return tuple(rates_of(device, self.options.cache) for device in self.options.devices)

    @property
    def config(self) -> PartitionConfig:
        """What the user chose."""
        return self.options.placing or PartitionConfig()

    def finish(self, module: Module) -> CompiledFunction:
        """All stages from an imported module on."""
        for stages in self.stages:
            stages.check_runs_here()
        names = _Names.of(module.main)
        self.whole.optimise(module)
        try:
            return self._fitted(module, names)
        except MemoryLimitError:
            policy = self.options.policy
            if policy.small_weights or all(d.memory is None for d in self.options.devices):
                raise
        frugal = replace(self.options, policy=replace(policy, small_weights=True))
        return Partitioned(frugal)._fitted(module, names)

    def _fitted(self, module: Module, names: _Names) -> CompiledFunction:
        """An optimised module, placed anew as long as devices need more than was estimated."""
        if self.config.split_batch:
            return self._split(module, names)
        priced = self.price(module)
        factors = dict.fromkeys(self.options.devices, 1.0)
        placed = self.place(priced, factors)
        for _ in range(ATTEMPTS):
            function = self._finish(module, placed, names)
            over = _too_full(self._needed(function, placed.runs))
            if not over:
                return function
            for device, (need, limit) in over.items():
                factors[device] *= 0.95 * limit / need
            try:
                placed = self.place(priced, factors)
            except MemoryLimitError:
                break
        raise _too_large(over)

    def _split(self, module: Module, names: _Names) -> CompiledFunction:
        """An optimised module whose batch is split over the devices."""
        self._tell("partition")
        graph, interface, programs = split_batch(module, self.batch_devices)
        function = self._load(graph, interface, names, programs)
        over = _too_full(self._needed(function))
        if over:
            raise _too_large(over)
        return function

    @property
    def batch_devices(self) -> list[BatchDevice]:
        """The devices over which a batch is split."""
        triples = zip(self.options.devices, self.stages, self.rates, strict=True)
        return [BatchDevice(*each) for each in triples]

    def shares(self, module: Module) -> list[BatchShare]:
        """The items of the batch of an imported module that each device would compute."""
        return batch_shares(self.whole.optimise(module), self.batch_devices)

    def plan(self, module: Module) -> PartitionPlan:
        """Where an imported module would be computed, and why."""
        self.whole.optimise(module)
        priced = self.price(module)
        placed = self.place(priced, dict.fromkeys(self.options.devices, 1.0))
        return PartitionPlan.of(priced, placed.placement, self.config.objective)

    def price(self, module: Module) -> PricedTasks:
        """The tasks of an optimised module, and what they cost on each device."""
        self._tell("partition")
        names = [device.name for device in self.options.devices]
        given = self.config.devices_of(module.main, names)
        weights = sum(constant.type.nbytes for constant in module.constants.values())
        return price_tasks(module, self._costs(names, weights), given)

    def place(self, priced: PricedTasks, factors: Mapping[LogicalDevice, float]) -> PlacedTasks:
        """Where tasks are best computed, within such parts of the memory that there is."""
        memories = [d.memory and int(d.memory * factors[d]) for d in self.options.devices]
        problem = replace(priced.problem, memories=[None, *memories])
        return PlacedTasks(priced, place(problem, self.config.objective))

    def _costs(self, names: Sequence[str], weights: int) -> DeviceCosts:
        """The devices, and what they take for parts of a model with so many bytes of weights."""
        memories = [None, *(device.memory for device in self.options.devices)]
        every = [HOST_MEMORY, *names]
        price = partial(self._price, weights)
        return DeviceCosts(every, price, self._links(), memories, host_computes=False)

    @cached_property
    def _pricing_stages(self) -> tuple[Stages, ...]:
        """The stages that tasks are priced by; their backends remember the plans of kernels."""
        return tuple(Stages(stages.options.for_costs) for stages in self.stages)

    def _price(self, weights: int, name: str, module: Module) -> float:
        """Seconds that a device takes for a module, which takes turns with all other weights."""
        number = next(n for n, device in enumerate(self.options.devices) if device.name == name)
        stages, rates = self._pricing_stages[number], self.rates[number]
        program = stages.plan_part(module)
        if self.options.tune is None or not isinstance(stages.backend, Profiling):
            return sum(estimate_steps(program, rates, weights))
        loading = LoadOptions(stages.options.threads)
        seconds = self.options.tune / MEASURED_TASKS
        return sum(measure_steps(stages.backend, program, loading, seconds))

    def _links(self) -> dict[tuple[int, int], Link]:
        """The ways between the host's memory and devices: values go over the host."""
        ways = [Link(0.0, inf), *(_link(rates) for rates in self.rates)]
        starts = [0.0, *(rates.run_seconds for rates in self.rates)]
        numbers = range(len(ways))
        return {
            (a, b): _joined(ways[a], ways[b], starts[b]) for a in numbers for b in numbers if a != b
        }

    def _finish(self, module: Module, placed: PlacedTasks, names: _Names) -> CompiledFunction:
        """Compile each part for its device, and load them all."""
        runs = placed.runs
        if len(runs) < 2:
            stages = self.stages[runs[0].device - 1 if runs else 0]
            return stages.finish_part(module.clone(), names.inputs, names.outputs)
        pairs = zip(runs, placed.parts(module), strict=True)
        made = [self._part(run.device - 1, part, 1 / len(runs)) for run, part in pairs]
        parts = tuple(part for part, _ in made)
        values = tuple(output_values(module.main))
        graph = PartGraph(names.inputs, values, parts)
        interface = _interface(module.main, values, parts)
        return self._load(graph, interface, names, [program for _, program in made])

    def _part(self, number: int, part: PartModule, share: float) -> tuple[Part, Program]:
        """A part for a device, which has a share of the time for tuning, and its program."""
        options = self.stages[number].options
        stages = Stages(replace(options, tune=options.tune and options.tune * share))
        program, artifact = stages.compile_part(part.module)
        return Part(self.options.devices[number], artifact, part.reads, part.gives), program

    def _load(
        self, graph: PartGraph, interface: Interface, names: _Names, programs: Sequence[Program]
    ) -> CompiledFunction:
        artifact, device = to_artifact(graph, interface), find_device(DEVICE)
        options = self.options.loading
        return CompiledFunction(
            interface,
            artifact.plan,
            device.load(artifact, options),
            names.inputs,
            names.outputs,
            programs=programs,
            artifact=artifact,
            allocate=device.allocate,
        )

    def _needed(
        self, function: CompiledFunction, runs: Sequence[Run] = ()
    ) -> dict[LogicalDevice, int]:
        """The bytes that devices need for what they were given."""
        executable = function.executable
        needed: dict[LogicalDevice, int] = {}
        if isinstance(executable, PartitionedExecutable):
            for loaded in executable.parts:
                device = loaded.part.device
                needed[device] = needed.get(device, 0) + loaded.nbytes
        elif runs:
            memory = function.memory
            alone = self.options.devices[runs[0].device - 1]
            needed[alone] = memory.arena_bytes + memory.weight_bytes + memory.io_bytes
        return needed

    def _tell(self, stage: str) -> None:
        if self.options.progress is not None:
            self.options.progress(stage)


def _too_full(needed: Mapping[LogicalDevice, int]) -> dict[LogicalDevice, tuple[int, int]]:
    """The devices that need more memory than they have: what they need, and what they have."""
    return {
        device: (need, device.memory)
        for device, need in needed.items()
        if device.memory is not None and need > device.memory
    }


def _too_large(over: Mapping[LogicalDevice, tuple[int, int]]) -> MemoryLimitError:
    device, (need, limit) = next(iter(over.items()))
    return MemoryLimitError(
        f"device {device.name!r} has {limit:,} bytes, but its part of the model takes {need:,} "
        "for weights, intermediate results, inputs and outputs",
        help="allow it more memory, add a device, or compile with max_arena",
    )


def _link(rates: Rates) -> Link:
    return Link(rates.transfer_seconds, rates.transfer_bandwidth)


def _joined(first: Link, second: Link, start: float) -> Link:
    """One way after the other, and what begins at its end."""
    slowness = 1 / first.bandwidth + 1 / second.bandwidth
    bandwidth = 1 / slowness if slowness else inf
    return Link(first.latency + second.latency + start, bandwidth)


def _interface(function: Function, outputs: Sequence[str], parts: Sequence[Part]) -> Interface:
    """What the parts together take and give."""
    read: dict[str, Port] = {}
    given: dict[str, Port] = {}
    for part in parts:  # by the names of values: ports of a program have names of their own
        interface = part.artifact.interface
        read.update(zip(part.inputs, interface.inputs, strict=True))
        given.update(zip(part.outputs, interface.outputs, strict=True))
    return Interface(
        tuple(read.get(value.name) or Port(value.name, value.type) for value in function.inputs),
        tuple(given[name] for name in outputs),
        tuple(port for part in parts for port in part.artifact.interface.states),
    )
