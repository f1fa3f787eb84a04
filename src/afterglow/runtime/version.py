"""A model compiled for some shapes, and what compiles it for others."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from copy import deepcopy
from dataclasses import field, replace
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar

from afterglow.runtime.bundle import Bundle, BundleRequest
from afterglow.runtime.compiled import CompiledFunction
from afterglow.runtime.device import BoundDeviceRun
from afterglow.runtime.extents import Shapes
from afterglow.runtime.output_targets import copied_into
from afterglow.runtime.signature import Signature, TensorInfo
from afterglow.runtime.trace import Recording
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types import Array, OutputForm, OutputKind
from afterglow.types.output_form import assemble, element_place


@dataclass(frozen=True)
class Version:
    """A model compiled for some shapes, and what a caller gets of what it computes.

    `value_inputs` are the inputs whose values it depends on, `ranged_shapes` the shapes of all
    inputs of the model if it takes several.
    """

    compiled: CompiledFunction
    forms: tuple[OutputForm, ...]
    value_inputs: frozenset[str] = frozenset()
    ranged_shapes: Shapes | None = None
    attachments: Mapping[str, bytes | memoryview] = field(default_factory=dict)
    """What came with the source, such as a tokenizer, by name."""
    unbound: ClassVar[frozenset[str]] = frozenset()

    def __deepcopy__(self, memo: dict[int, Any]) -> Version:
        return replace(self, compiled=deepcopy(self.compiled, memo))

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

    @property
    def input_shapes(self) -> list[tuple[int, ...]]:
        """The shape of each input."""
        return [port.type.shape for port in self.compiled.interface.inputs]

    def run(self, arrays: Mapping[str, Any]) -> list[Any]:
        """The outputs as a caller gets them."""
        outputs = self.compiled.run(self.inputs_of(arrays))
        return outputs if self._gives_tensors else assemble(self.forms, outputs)

    def run_on_device(self, arrays: Mapping[str, Any]) -> list[Any] | None:
        """The outputs in the memory of the device where arrays lie; None if it cannot run there."""
        return self.compiled.run_on_device(self.inputs_of(arrays)) if self._gives_tensors else None

    def bind_on_device(self, arrays: Mapping[str, Any]) -> BoundDeviceRun | None:
        """A run on arrays that stay where they are on the device; None if it cannot run there."""
        inputs = self.inputs_of(arrays)
        return self.compiled.bind_on_device(inputs) if self._gives_tensors else None

    def run_recorded(self, here: Recording, arrays: Mapping[str, Any]) -> list[Any]:
        """The same, with its steps in a trace if they are wanted and can be shown."""
        outputs = self.compiled.run_recorded(here, self.inputs_of(arrays))
        return outputs if self._gives_tensors else assemble(self.forms, outputs)

    def run_into(self, arrays: Mapping[str, Any], targets: Mapping[int, Array]) -> list[Any]:
        """The same; the outputs at the places of `targets` are in these arrays."""
        if self._gives_tensors:
            return self.compiled.run_into(self.inputs_of(arrays), targets)
        return copied_into(targets, self.run(arrays), [form.name for form in self.forms])

    def inputs_of(self, arrays: Mapping[str, Any]) -> list[Any]:
        """What its program takes, in order, of what a caller gives by name."""
        return [arrays[n] if i is None else arrays[n][i] for n, i in self._input_places]

    @cached_property
    def _input_places(self) -> list[tuple[str, int | None]]:
        """What each input is: a value by its name, or an element of a sequence."""
        return [element_place(name) for name in self.compiled.input_names]

    @cached_property
    def _gives_tensors(self) -> bool:
        return all(form.kind is OutputKind.TENSOR for form in self.forms)


class Specialiser:
    """Compiles a model for the shapes, and where they matter the values, of given inputs."""

    def compile_for(self, feed: Mapping[str, Any]) -> Any:
        """A version that can be run on such inputs."""
        raise NotImplementedError

    def refused_ranges(self) -> Mapping[str, str]:
        """The dimensions that no program could be ranged over, each with the reason."""
        return {}

    def title(self) -> str:
        """What it compiles, and for what: for people."""
        return ""

    def made_from(self) -> Mapping[str, Any]:
        """The compiler, the model's files and the options, as a file says it."""
        return {}

    def stage(self, name: str) -> str:
        """The text of a stage of the compiler."""
        raise NotImplementedError

    def export(self, request: BundleRequest, folder: Path, *, shared: bool) -> Bundle:
        """Write the model as a bundle; `shared`, with a shared library."""
        raise NotImplementedError

    def source_left(self, boundaries: Sequence[Collection[str]]) -> SourceLeft:
        """What a file needs to go on once the values of one of the boundaries are known."""
        raise NotImplementedError


@dataclass(frozen=True)
class SourceLeft:
    """What is left of a source behind its boundaries, and how to compile it: as a file holds it."""

    options: Mapping[str, Any]
    """What JSON can hold."""
    graph: bytes | memoryview
    weights: bytes | memoryview
