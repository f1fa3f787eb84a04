"""The compiled steps of a model: one for each size of a batch, with the same weights in memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

from afterglow.driver.backends import compile_module
from afterglow.driver.options import Options
from afterglow.graph import Module
from afterglow.runtime.bundle import Bundle, BundleRequest
from afterglow.runtime.compiled import CompiledFunction
from afterglow.runtime.device import DeviceBuffer
from afterglow.support.errors import IndexRangeError, InternalError, UsageError
from afterglow.support.lazy_dataclass import dataclass
from afterglow.training.accumulate import SHARE, parts_of
from afterglow.training.bundle import export_training, training_entries
from afterglow.training.cost import TrainingMemory, training_memory
from afterglow.training.data import Field, Fields
from afterglow.training.model_source import ModelSource
from afterglow.training.parameters import Parameter
from afterglow.training.step import Recipe, TrainingStep, evaluation_step, training_step
from afterglow.types import Array

TRAIN, EARLIER_PART, LAST_PART = "train", "earlier part", "last part"
"""Kinds of programs that learn: from a batch, or from parts of one."""


@dataclass(frozen=True)
class Result:
    """What a step gave."""

    loss: float
    outputs: tuple[Array, ...]


class Memory:
    """The states of all programs, by name; programs that join share those of the same name."""

    def __init__(self, values: Mapping[str, Array]) -> None:
        self._waiting = dict(values)
        """What states hold that no program has asked for yet."""
        self._buffers: dict[str, DeviceBuffer] = {}

    def join(self, function: CompiledFunction) -> None:
        """Let a program have the states that others have, and others have those it brings."""
        for name, buffer in function.states.items():
            if name in self._buffers:
                function.states[name] = self._buffers[name]
                continue
            self._buffers[name] = buffer
            if name in self._waiting:
                buffer.write(self._waiting.pop(name)).result()

    def read(self, name: str) -> Array:
        """A copy of what a state holds."""
        if name in self._buffers:
            return self._buffers[name].read().result()
        return self._waiting[name].copy()

    def write(self, name: str, array: Array) -> None:
        """Let a state hold an array."""
        if name in self._buffers:
            self._buffers[name].write(np.asarray(array, order="C")).result()
        else:
            self._waiting[name] = array.copy()


class Programs:
    """Runs steps of training, of evaluation and of inference on the same weights."""

    def __init__(
        self,
        source: ModelSource,
        recipe: Recipe,
        options: Options,
        *,
        outputs: bool,
        accumulate: int = 1,
    ) -> None:
        self._source, self._recipe, self._options = source, recipe, options
        self._accumulate = accumulate
        """In how many parts a batch is learnt from."""
        self._outputs = outputs
        module = source.module(source.batch)
        self._first = training_step(module, recipe, outputs=outputs)
        self._compiled: dict[tuple[str, int], CompiledFunction] = {}
        self.fields = _fields(self._first)
        _require_rows(self._first, source.batch)
        self.memory = Memory(self._initial(module))

    def _initial(self, module: Module) -> dict[str, Array]:
        """What all states begin with."""
        values = {p.name: module.constants[p.name].data for p in self.parameters}
        begin = self._first.initial(values)
        types = {name: state.type for name, state in self._first.module.states.items()}
        zeros = {n: np.zeros(t.shape, t.dtype.numpy) for n, t in types.items() if n not in begin}
        return {**zeros, **begin}

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """Weights that train, and running statistics."""
        return self._first.parameters

    def prepare(self, batch: Mapping[str, Array]) -> None:
        """Compile what learns from a batch, unless a batch of its size has come before."""
        for kind, part in self._parts(batch):
            self._program(kind, part)

    def memory_of(self, rows: int) -> TrainingMemory:
        """Bytes that a step takes that learns from so many samples."""
        parts = min(self._accumulate, rows)
        kind = TRAIN if parts == 1 else LAST_PART
        size = -(-rows // parts)
        step, inference = self._made_step(kind, size), self._source.module(size).clone()
        return training_memory(step, inference, self._options)

    def train(self, batch: Mapping[str, Array], rate: float) -> Result:
        """Learn from a batch."""
        given = {self._first.rate: np.asarray(rate, np.float32)}
        parts = [*self._parts(batch)]
        results = [self._run(self._program(kind, part), {**part, **given}) for kind, part in parts]
        if len(results) == 1:
            return results[0]
        losses = (part[SHARE] * r.loss for (_, part), r in zip(parts, results, strict=True))
        outputs = zip(*(result.outputs for result in results), strict=True)
        return Result(float(sum(losses)), tuple(np.concatenate(each) for each in outputs))

    def _parts(self, batch: Mapping[str, Array]) -> Iterator[tuple[str, Mapping[str, Array]]]:
        """The parts of a batch, each with the kind of the program that learns from it."""
        if min(self._accumulate, _rows(batch)) == 1:
            yield TRAIN, batch
            return
        summed = getattr(self._recipe.loss, "reduction", "mean") == "sum"
        *earlier, last = parts_of(batch, self._accumulate, summed=summed)
        yield from ((EARLIER_PART, part) for part in earlier)
        yield LAST_PART, last

    def evaluate(self, batch: Mapping[str, Array]) -> Result:
        """Loss and outputs of a batch, as the model infers."""
        return self._run(self._program("evaluate", batch), batch)

    def infer(self, inputs: Mapping[str, Array]) -> tuple[Array, ...]:
        """The outputs of a batch."""
        function = self._program("infer", inputs)
        return tuple(function.run([inputs[name] for name in function.input_names]))

    def _run(self, function: CompiledFunction, arrays: Mapping[str, Array]) -> Result:
        try:
            loss, *outputs = function.run([arrays[name] for name in function.input_names])
        except IndexRangeError as error:
            error.help = "look at the labels and indices of this batch; go on from a checkpoint, "
            error.help += "because the step may have changed weights already"
            raise
        return Result(float(loss), tuple(outputs))

    def _program(self, kind: str, batch: Mapping[str, Array]) -> CompiledFunction:
        """The program for a batch, compiled if it is the first of its size."""
        return self._program_for(kind, _rows(batch))

    def _program_for(self, kind: str, rows: int) -> CompiledFunction:
        if (kind, rows) not in self._compiled:
            step = self._step(kind, rows)
            _require_rows(step, rows)
            function = compile_module(step.module, self._options)
            self.memory.join(function)
            self._compiled[kind, rows] = function
        return self._compiled[kind, rows]

    def _step(self, kind: str, rows: int) -> TrainingStep:
        if kind in (TRAIN, EARLIER_PART, LAST_PART):
            return self._training_step(kind, rows)
        loss = self._recipe.loss if kind == "evaluate" else None
        return evaluation_step(self._source.module(rows), self._first, loss)

    def _training_step(self, kind: str, rows: int) -> TrainingStep:
        if (kind, rows) == (TRAIN, self._source.batch):
            return self._first
        return self._made_step(kind, rows)

    def _made_step(self, kind: str, rows: int, *, outputs: bool | None = None) -> TrainingStep:
        made = training_step(
            self._source.module(rows),
            self._recipe,
            outputs=self._outputs if outputs is None else outputs,
            like=self.parameters,
            last_part=None if kind == TRAIN else kind == LAST_PART,
        )
        if made.parameters != self.parameters:
            raise InternalError(f"a step for {rows} samples has other weights")
        return made

    def export_bundle(
        self, folder: Path, request: BundleRequest, sizes: tuple[int, int], *, shared: bool
    ) -> Bundle:
        """Write a bundle whose state begins with what that of this process holds now.

        `sizes` are the samples of a batch that it learns from, and of one that it infers for.
        """
        step = self._made_step(TRAIN, sizes[0], outputs=False)
        states = {name: self.memory.read(name) for name in step.module.states}
        modules = training_entries(self._source.module(sizes[1]), step, states)
        return export_training(modules, folder, request, self._options, shared=shared)

    def weights(self) -> dict[str, Array]:
        """Weights that train and running statistics, as the model has them."""
        return {p.name: p.from_state(self.memory.read(p.name)) for p in self.parameters}

    def slots(self) -> dict[str, Array]:
        """All other states: the optimizer's, with axes as in the model, and what else there is."""
        owners = self._others()
        read = {name: self.memory.read(name) for name in owners}
        return {n: read[n] if p is None else p.from_state(read[n]) for n, p in owners.items()}

    def restore(self, weights: Mapping[str, Array], slots: Mapping[str, Array]) -> None:
        """Go on from weights, and from states of the optimizer, that fit."""
        for parameter in self.parameters:
            if parameter.name in weights:
                array = parameter.to_state(weights[parameter.name])
                self.memory.write(parameter.name, array)
        for name, owner in self._others().items():
            if name in slots:
                array = slots[name] if owner is None else owner.to_state(slots[name])
                self.memory.write(name, array)

    def _others(self) -> dict[str, Parameter | None]:
        """States that are no parameters, each with the one whose axes it has."""
        owners = {parameter.name: parameter for parameter in self.parameters}
        slots = {s: owners[name] for name, slots in self._first.slots.items() for s in slots}
        return {name: slots.get(name) for name in self._first.module.states if name not in owners}


def _rows(batch: Mapping[str, Array]) -> int:
    """How many samples a batch has."""
    return len(next(iter(batch.values())))


def _require_rows(step: TrainingStep, rows: int) -> None:
    """Require that the first axis of each target, which follows the outputs, is the batch's."""
    types = {value.name: value.type for value in step.module.main.inputs}
    for name in step.targets:
        if types[name].shape[0] != rows:
            raise UsageError(
                f"for {rows} samples, the loss needs {types[name].shape[0]} rows of {name!r}",
                help="the first axis of outputs is that of the batch: leave it as it is, with "
                "CrossEntropy(axis=-1) for [batch, tokens, classes], or CTC(batch_first=True)",
            )


def _fields(step: TrainingStep) -> Fields:
    types = {value.name: value.type for value in step.module.main.inputs}
    return Fields(
        tuple(Field.of(name, types[name], "input") for name in step.inputs),
        tuple(Field.of(name, types[name], "target") for name in step.targets),
    )
