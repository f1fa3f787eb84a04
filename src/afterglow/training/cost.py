"""What a training step takes in memory, beside inference of the same model."""

from __future__ import annotations

from collections.abc import Sequence

from afterglow.driver.options import Options
from afterglow.driver.stages import Stages
from afterglow.graph import Module, Value
from afterglow.instr import Program
from afterglow.lowering.recompute.forward import Forward
from afterglow.memory import halos
from afterglow.memory.planner import scratch_of
from afterglow.memory.timeline import Allocation, Timeline
from afterglow.support.lazy_dataclass import dataclass
from afterglow.support.tables import plain_text, table
from afterglow.training.step import TrainingStep

LARGEST = 5
"""How many of the values that are kept are listed."""


@dataclass(frozen=True)
class Kept:
    """A value of the forward pass that the backward pass reads."""

    name: str
    """The node of the model that made it."""
    type: str
    nbytes: int


@dataclass(frozen=True)
class InferenceMemory:
    """Bytes that the model takes to infer, for the same batch."""

    weights: int
    inputs_outputs: int
    arena: int

    @property
    def total(self) -> int:
        """All of it."""
        return self.weights + self.inputs_outputs + self.arena


@dataclass(frozen=True)
class TrainingMemory:
    """Bytes that a training step takes; printed, it is a table.

    At the peak the arena has values of the forward pass that were `kept`, workspace of a kernel,
    and what else is there: gradients, mostly.
    """

    weights: int
    slots: int
    """States of the optimizer."""
    other_states: int
    """The number of steps, and sums of gradients if batches are learnt from in parts."""
    inputs_outputs: int
    arena: int
    kept_at_peak: int
    workspace_at_peak: int
    kept: tuple[Kept, ...]
    """What the backward pass reads of the forward pass, the largest first."""
    inference: InferenceMemory

    @property
    def total(self) -> int:
        """All that a step takes."""
        states = self.weights + self.slots + self.other_states
        return states + self.inputs_outputs + self.arena

    def __str__(self) -> str:
        rows = table("memory", "training", "inference", right=("training", "inference"))
        other = self.inference
        gradients = self.arena - self.kept_at_peak - self.workspace_at_peak
        for name, mine, theirs in (
            ("weights", self.weights, other.weights),
            ("states of the optimizer", self.slots, 0),
            ("other states", self.other_states, 0),
            ("inputs and outputs", self.inputs_outputs, other.inputs_outputs),
            ("arena", self.arena, other.arena),
            ("  kept for the backward pass", self.kept_at_peak, 0),
            ("  workspace", self.workspace_at_peak, 0),
            ("  gradients and others", gradients, 0),
            ("total", self.total, other.total),
        ):
            if mine or theirs:
                rows.add_row(name, f"{mine:,} B", f"{theirs:,} B" if theirs else "")
        return f"{plain_text(rows)}\n\n{self._largest()}"

    def _largest(self) -> str:
        shown = table("largest values kept", "type", "bytes", right=("bytes",))
        for value in self.kept[:LARGEST]:
            shown.add_row(value.name, value.type, f"{value.nbytes:,}")
        return plain_text(shown)


def training_memory(step: TrainingStep, inference: Module, options: Options) -> TrainingMemory:
    """Plan a step and the model that infers, both of which are used up, and say what they take."""
    stages = Stages(options)
    lowered = stages.lower(stages.optimise(step.module))
    program, plan = stages.plan(lowered)
    timeline = Timeline(program)
    later = {value.name: value for value in Forward(lowered.main).read_later}
    kept = [each for each in timeline.allocations if _value_name(each) in later]
    at_peak = timeline.live_at(timeline.peak)
    workspace = scratch_of(program)
    states = {buffer.name: buffer.type.nbytes for buffer in program.states}
    weights = sum(states.get(p.name, 0) for p in step.parameters)
    slots = sum(states.get(name, 0) for names in step.slots.values() for name in names)
    return TrainingMemory(
        weights,
        slots,
        sum(states.values()) - weights - slots,
        _interface_bytes(program),
        plan.arena_bytes,
        sum(each.nbytes for each in at_peak if each in kept),
        sum(each.nbytes for each in at_peak if each.buffer in workspace),
        tuple(_kept(later[_value_name(each)]) for each in sorted(kept, key=lambda e: -e.nbytes)),
        _inference_memory(inference, stages),
    )


def _value_name(allocation: Allocation) -> str:
    """The name of the value that a buffer is made for, perhaps with a halo around it."""
    return allocation.buffer.name.removesuffix(halos.SUFFIX)


def _kept(value: Value) -> Kept:
    origin = value.producer.origin if value.producer is not None else ""
    return Kept(origin or value.name, str(value.type), value.type.nbytes)


def _inference_memory(module: Module, stages: Stages) -> InferenceMemory:
    program, plan = stages.plan(stages.lower(stages.optimise(module)))
    held: Sequence[int] = [b.type.nbytes for b in (*program.constants, *program.states)]
    return InferenceMemory(sum(held), _interface_bytes(program), plan.arena_bytes)


def _interface_bytes(program: Program) -> int:
    return sum(buffer.type.nbytes for buffer in (*program.inputs, *program.outputs))
