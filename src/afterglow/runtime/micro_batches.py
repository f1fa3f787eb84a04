"""Micro-batches: a large batch goes through a program a few items at a time.

What is computed between the inputs and the outputs of few items stays in the caches, and takes
memory for few of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import astuple, replace
from itertools import pairwise
from typing import Any

import numpy as np

from afterglow.runtime.buffers import HostExecutable
from afterglow.runtime.device import (
    DeviceBuffer,
    Executable,
    Footprint,
    StepName,
    TimesSteps,
    WritesOutputs,
)
from afterglow.runtime.extents import ExtentReader
from afterglow.runtime.recorded_steps import run_of
from afterglow.runtime.trace import Recording
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types import Array, Interface, Port
from afterglow.types.extent import Dim, ranged


@dataclass(frozen=True)
class MicroBatches:
    """How batches are divided: items lie along the first axes of outputs and of some inputs."""

    dim: Dim | int
    """The dimension that counts the items of a batch, with its bounds, or their number."""
    most: int
    """Items of a micro-batch at most; of a batch that is not ranged, in each of them."""
    inputs: tuple[int, ...]
    """The inputs with items, by their places."""

    @property
    def part(self) -> Dim:
        """The dimension with the bounds that it has in the program, if it is ranged there."""
        assert isinstance(self.dim, Dim)
        return replace(self.dim, high=self.most)

    def interface(self, part: Interface) -> Interface:
        """What batches take and give, by a program for micro-batches."""
        inputs = [
            self._whole(port) if place in self.inputs else port
            for place, port in enumerate(part.inputs)
        ]
        return Interface(tuple(inputs), tuple(map(self._whole, part.outputs)))

    def _whole(self, port: Port) -> Port:
        items = ranged(self.dim) if isinstance(self.dim, Dim) else self.dim
        shape = (items, *port.type.shape[1:])
        return replace(port, type=port.type.with_shape(shape))

    def describe(self) -> list[Any]:
        """What JSON can hold."""
        dim = list(astuple(self.dim)) if isinstance(self.dim, Dim) else self.dim
        return [dim, self.most, list(self.inputs)]

    @staticmethod
    def restore(data: Sequence[Any]) -> MicroBatches:
        """What was described so."""
        dim, most, inputs = data
        return MicroBatches(dim if isinstance(dim, int) else Dim(*dim), most, tuple(inputs))


class MicroBatchedExecutable(HostExecutable):
    """Runs a program for micro-batches on batches."""

    def __init__(self, program: Executable, batches: MicroBatches, interface: Interface) -> None:
        self.program = program
        self.batches = batches
        self.threads = getattr(program, "threads", None)
        self._extents = ExtentReader.of(interface) if interface.dims else None

    @property
    def footprint(self) -> Footprint:
        """What the program needs besides the arena."""
        return self.program.footprint

    def run(self, inputs: Sequence[Array], states: Mapping[str, DeviceBuffer]) -> list[Array]:
        """Run once on arrays: on parts of them that are as equal as can be."""
        return self.run_into(inputs, states, {})

    def run_into(
        self,
        inputs: Sequence[Array],
        states: Mapping[str, DeviceBuffer],
        targets: Mapping[int, Array],
    ) -> list[Array]:
        """The same; the outputs at the places of `targets` are these arrays, others are new."""
        count = self._count(inputs)
        if count <= self.batches.most:
            return self._run_part(inputs, states, targets)
        outputs = dict(targets)
        for items in self._parts(count):
            own = {place: output[items] for place, output in outputs.items()}
            results = self._run_part(self._taken(inputs, items), states, own)
            for place, result in enumerate(results):
                if place not in outputs:
                    outputs[place] = np.empty((count, *result.shape[1:]), result.dtype)
                    outputs[place][items] = result
        return [outputs[place] for place in range(len(outputs))]

    def run_recorded(
        self, here: Recording, inputs: Sequence[Array], states: Mapping[str, DeviceBuffer]
    ) -> list[Array]:
        """Run once, with the steps of each micro-batch in a trace if the program shows them."""
        run, count = run_of(self.program, here), self._count(inputs)
        parts = self._parts(count) or [slice(count)]
        results = [run(self._taken(inputs, items), states) for items in parts]
        return [np.concatenate(each) for each in zip(*results, strict=True)]

    def _run_part(
        self,
        inputs: Sequence[Array],
        states: Mapping[str, DeviceBuffer],
        targets: Mapping[int, Array],
    ) -> list[Array]:
        """Run the program once, with outputs written directly to targets if it can."""
        if targets and isinstance(self.program, WritesOutputs):
            return self.program.run_into(inputs, states, targets)
        results = self.program.run(inputs, states)
        for place, target in targets.items():
            target[...] = results[place]
        return [targets.get(place, result) for place, result in enumerate(results)]

    def steps(self) -> Sequence[StepName]:
        """The steps of the program."""
        return self._timed.steps()

    def time_steps(
        self, inputs: Sequence[Array], states: Mapping[str, DeviceBuffer]
    ) -> list[float]:
        """Run once on one thread; the seconds of each step, for all micro-batches."""
        count = self._count(inputs)
        parts = self._parts(count) or [slice(count)]
        seconds = [self._timed.time_steps(self._taken(inputs, items), states) for items in parts]
        return [sum(step) for step in zip(*seconds, strict=True)]

    @property
    def _timed(self) -> TimesSteps:
        assert isinstance(self.program, TimesSteps)
        return self.program

    def _count(self, inputs: Sequence[Array]) -> int:
        """The number of items, which must be within the bounds."""
        dim = self.batches.dim
        if self._extents is None or not isinstance(dim, Dim):
            assert isinstance(dim, int)
            return dim
        return self._extents.read(inputs, {})[dim.name]

    def _parts(self, count: int) -> list[slice]:
        """The items of each micro-batch."""
        parts = -(-count // self.batches.most)
        ends = [count * number // parts for number in range(parts + 1)] if parts else []
        return [slice(*both) for both in pairwise(ends)]

    def _taken(self, inputs: Sequence[Array], items: slice) -> list[Array]:
        own = self.batches.inputs
        return [array[items] if place in own else array for place, array in enumerate(inputs)]
