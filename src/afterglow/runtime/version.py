"""A model compiled for some shapes, and what compiles it for others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from typing import Any

from afterglow.backends.cpu.bundle import BundleCode, BundleOptions
from afterglow.runtime.compiled import CompiledFunction
from afterglow.runtime.signature import Signature, TensorInfo
from afterglow.types import OutputForm, OutputKind
from afterglow.types.output_form import assemble


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
        outputs = self.compiled.run(inputs)
        return outputs if self._gives_tensors else assemble(self.forms, outputs)

    @cached_property
    def _gives_tensors(self) -> bool:
        return all(form.kind is OutputKind.TENSOR for form in self.forms)


class Specialiser:
    """Compiles a model for the shapes, and where they matter the values, of given inputs."""

    def compile_for(self, feed: Mapping[str, Any]) -> Any:
        """A version that can be run on such inputs."""
        raise NotImplementedError

    def stage(self, name: str) -> str:
        """The text of a stage of the compiler."""
        raise NotImplementedError

    def bundle(self, wish: BundleWish) -> BundleCode:
        """The model compiled for a bundle."""
        raise NotImplementedError


@dataclass(frozen=True)
class BundleWish:
    """A bundle that is wanted: for which machine, of what kind, for which shapes."""

    target: str = "host"
    name: str | None = None
    """How its symbols begin; by default the name of the model's file."""
    options: BundleOptions = field(default_factory=BundleOptions)
    shapes: Sequence[Mapping[str, Sequence[int]]] = ()
    """The shapes of the inputs, for each entry; none if there is nothing to bind."""
