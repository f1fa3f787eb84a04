"""The compiled model that a user calls."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from threading import RLock
from typing import Any

import numpy as np

from afterglow.runtime.compiled import CompiledFunction, MemoryReport
from afterglow.runtime.signature import Signature, TensorInfo
from afterglow.support.errors import UsageError
from afterglow.types import OutputForm, OutputKind
from afterglow.types.dtype import Kind
from afterglow.types.output_form import assemble

SPECIALISATIONS = 16
"""How many versions for different shapes a model keeps; the least recently used goes."""


@dataclass(frozen=True)
class Version:
    """A model compiled for some shapes, and what a caller gets of what it computes.

    `value_inputs` are the inputs whose values it depends on.
    """

    compiled: CompiledFunction
    forms: tuple[OutputForm, ...]
    value_inputs: frozenset[str] = frozenset()

    @property
    def signature(self) -> Signature:
        """What it takes and gives, exactly; of sequences and optionals only the name."""
        own = self.compiled.signature
        infos = iter(own.outputs)
        tensors = [list(islice(infos, form.count)) for form in self.forms]
        outputs = [
            parts[0] if form.kind is OutputKind.TENSOR else TensorInfo(form.name, None, None)
            for form, parts in zip(self.forms, tensors, strict=True)
        ]
        return Signature(own.inputs, tuple(outputs))

    def run(self, arrays: Mapping[str, Any]) -> list[Any]:
        """The outputs as a caller gets them."""
        inputs = [arrays[name] for name in self.compiled.input_names]
        return assemble(self.forms, self.compiled.run(inputs))


class Specialiser:
    """Compiles a model for the shapes, and where they matter the values, of given inputs."""

    def compile_for(self, feed: Mapping[str, Any]) -> Version:
        """A version that can be run on such inputs."""
        raise NotImplementedError

    def stage(self, name: str) -> str:
        """The text of a stage of the compiler."""
        raise NotImplementedError


class CompiledModel:
    """A model ready to run: call it with arrays, by position or by name.

    A model whose shapes are all known is compiled once. Otherwise it is compiled for the shapes of
    each call, and for the values of those inputs that decide shapes, and what was compiled is kept.
    """

    def __init__(
        self,
        signature: Signature,
        specialiser: Specialiser,
        static: Version | None,
    ) -> None:
        self._signature = signature
        self._specialiser = specialiser
        self._static = static
        self._versions: OrderedDict[Hashable, Version] = OrderedDict()
        self._value_inputs: frozenset[str] = frozenset()
        self._lock = RLock()

    @property
    def inputs(self) -> tuple[TensorInfo, ...]:
        """Name, element type and shape of each input."""
        return self._signature.inputs

    @property
    def outputs(self) -> tuple[TensorInfo, ...]:
        """Name, element type and shape of each output; of what is no tensor the name."""
        return self._signature.outputs

    @property
    def memory(self) -> MemoryReport:
        """Bytes needed by the version that ran last, or by the only one."""
        return self.compiled.memory

    @property
    def compiled(self) -> CompiledFunction:
        """The version that ran last, or the only one."""
        if self._static is not None:
            return self._static.compiled
        if not self._versions:
            raise UsageError(
                "the model is not compiled yet: it has free dimensions",
                help="bind them with shapes= or dims=, or run it once",
            )
        return next(reversed(self._versions.values())).compiled

    def ir(self, stage: str = "instructions") -> str:
        """The text of a stage: import, graph, lowered or instructions."""
        return self._specialiser.stage(stage)

    def __call__(self, *arrays: Any, **named: Any) -> Any:
        """Run on arrays by position, then by name; one array, or a tuple if there are several.

        A sequence is a list of arrays, an empty optional None, in and out.
        """
        if len(arrays) > len(self.inputs):
            raise UsageError(f"the model has {len(self.inputs)} inputs, got {len(arrays)} arrays")
        feed = {info.name: array for info, array in zip(self.inputs, arrays, strict=False)}
        twice = [name for name in named if name in feed]
        if twice:
            raise UsageError(f"input {twice[0]!r} is given by position and by name")
        outputs = self.run(None, {**feed, **named})
        return outputs[0] if len(outputs) == 1 else tuple(outputs)

    def run(self, output_names: Sequence[str] | None, feed: Mapping[str, Any]) -> list[Any]:
        """Run on arrays by name and return the outputs asked for, or all of them, in order."""
        arrays = self._checked(feed)
        outputs = self._version_for(arrays).run(arrays)
        if output_names is None:
            return outputs
        by_name = dict(zip((info.name for info in self.outputs), outputs, strict=True))
        unknown = [name for name in output_names if name not in by_name]
        if unknown:
            raise UsageError(
                f"the model has no output {unknown[0]!r}", help=f"it has {', '.join(by_name)}"
            )
        return [by_name[name] for name in output_names]

    def _checked(self, feed: Mapping[str, Any]) -> dict[str, Any]:
        names = [info.name for info in self.inputs]
        unknown = [name for name in feed if name not in names]
        if unknown:
            raise UsageError(
                f"the model has no input {unknown[0]!r}", help=f"it has {', '.join(names)}"
            )
        missing = [name for name in names if name not in feed]
        if missing:
            raise UsageError(f"input {missing[0]!r} is missing")
        return {info.name: _checked(info, feed[info.name]) for info in self.inputs}

    def _version_for(self, arrays: Mapping[str, Any]) -> Version:
        if self._static is not None:
            return self._static
        with self._lock:
            key = self._key(arrays)
            found = self._versions.get(key)
            if found is None:
                found = self._specialiser.compile_for(arrays)
                if not found.value_inputs <= self._value_inputs:
                    self._value_inputs |= found.value_inputs
                    self._versions.clear()
                key = self._key(arrays)
                self._versions[key] = found
                if len(self._versions) > SPECIALISATIONS:
                    self._versions.popitem(last=False)
            self._versions.move_to_end(key)
            return found

    def _key(self, feed: Mapping[str, Any]) -> Hashable:
        shapes = tuple(getattr(value, "shape", None) for value in feed.values())
        return shapes, tuple(_content(feed[name]) for name in sorted(self._value_inputs))


def _content(value: Any) -> Hashable:
    """Something that is equal for equal values."""
    if isinstance(value, (list, tuple)):
        return tuple(map(_content, value))
    if not isinstance(value, np.ndarray):
        return repr(value)
    elements = repr(value.tolist()) if value.dtype == object else value.tobytes()
    return value.dtype, value.shape, elements


def _checked(info: TensorInfo, given: Any) -> Any:
    """The input as an array of the right element type and rank, or an error that says why not."""
    wanted = info.dtype
    if wanted is None:
        return given
    array = given if isinstance(given, np.ndarray) else np.asarray(given)
    if wanted.kind is Kind.STRING and array.dtype.kind in "UST":
        array = array.astype(object)
    if array.dtype != wanted.numpy:
        raise UsageError(
            f"input {info.name!r} holds {wanted.numpy}, got {array.dtype}",
            help=f"convert it: array.astype({wanted.numpy.name!r})",
        )
    if info.shape is None:
        return array
    fits = len(info.shape) == array.ndim and all(
        not isinstance(want, int) or want == have
        for want, have in zip(info.shape, array.shape, strict=True)
    )
    if not fits:
        raise UsageError(f"input '{info}' does not take an array of shape {array.shape}")
    return array
