"""What is compared: something that gives the tensors of a model by name, for given inputs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from afterglow.driver.compile import Recipe, compile_recipe
from afterglow.driver.dims import DimOptions
from afterglow.driver.options import Options
from afterglow.frontends.base import Source
from afterglow.report.compare.model_graph import ModelGraph, PartSource, graph_of_source
from afterglow.runtime import CompiledModel
from afterglow.support.errors import UsageError
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types import Array

Feed = Mapping[str, Array]
"""Inputs by name."""
Tensors = dict[str, Array]
"""Tensors by name."""


class Side(Protocol):
    """One side of a comparison."""

    @property
    def label(self) -> str:
        """What it is called."""

    @property
    def names(self) -> Sequence[str]:
        """The tensors that it can give."""

    def run(self, names: Sequence[str], feed: Feed) -> Tensors:
        """Some of the tensors; those that are sequences are there element by element."""


@dataclass
class CompiledSide:
    """A model that is compiled with options; for tensors that it does not return, anew."""

    label: str
    source: Source
    options: Options
    dim_options: DimOptions = field(default_factory=DimOptions)

    @cached_property
    def graph(self) -> ModelGraph | None:
        """The main graph; None if the front end tells nothing about it."""
        return graph_of_source(self.source)

    @property
    def names(self) -> Sequence[str]:
        """Every tensor of the main graph, or the outputs if nothing else is known."""
        return self.source.output_names if self.graph is None else self.graph.tensors

    def outputs(self, feed: Feed) -> Tensors:
        """The outputs of the model exactly as it is compiled for a user."""
        return self._run(self.source, feed)

    def run(self, names: Sequence[str], feed: Feed) -> Tensors:
        """The tensors, and the outputs beside them, of the model with more outputs."""
        if self.graph is None or {*names} <= {*self.graph.outputs}:
            return self.outputs(feed)
        return self._run(PartSource(self.graph.observed(names), self.source), feed)

    def part(self, nodes: Sequence[int], wanted: str, given: Feed) -> Tensors:
        """A tensor that some nodes compute of arrays, which take the place of all others."""
        assert self.graph is not None
        source = PartSource(self.graph.part(nodes, wanted, given))
        return replace(self, dim_options=DimOptions())._run(source, given)

    def prefix(self, wanted: str, feed: Feed) -> Tensors:
        """A tensor of the model that returns nothing else."""
        assert self.graph is not None
        return self._run(PartSource(self.graph.returning([wanted])), feed)

    def bound(self, feed: Feed, source: Source | None = None) -> Options:
        """The options for one program that takes the inputs: for ranges where they are given."""
        if self.dim_options.ranges:
            return self.options
        options = replace(self.options, shapes={}, dims={})
        inputs = {info.name for info in (source or self.source).signature(options).inputs}
        shapes = {n: x.shape for n, x in feed.items() if isinstance(x, np.ndarray) and n in inputs}
        return replace(options, shapes=shapes)

    def _run(self, source: Source, feed: Feed) -> Tensors:
        recipe = Recipe(source, self.bound(feed, source))
        model = compile_recipe(recipe, self.dim_options)
        return outputs_of(model, feed)


@dataclass(frozen=True)
class LoadedSide:
    """A model that is compiled already: only its outputs are known."""

    label: str
    model: CompiledModel

    @property
    def names(self) -> Sequence[str]:
        """The outputs."""
        return [info.name for info in self.model.outputs]

    def outputs(self, feed: Feed) -> Tensors:
        """All outputs."""
        return outputs_of(self.model, feed)

    def run(self, names: Sequence[str], feed: Feed) -> Tensors:
        """All outputs."""
        return self.outputs(feed)


@dataclass(frozen=True)
class StoredSide:
    """Tensors that were computed elsewhere."""

    label: str
    arrays: Mapping[str, Array]

    @property
    def names(self) -> Sequence[str]:
        """Those that are there."""
        return list(self.arrays)

    def run(self, names: Sequence[str], feed: Feed) -> Tensors:
        """Those asked for."""
        return {name: self.arrays[name] for name in names}


def outputs_of(model: CompiledModel, feed: Feed) -> Tensors:
    """The outputs of a model, by name, for those of the given inputs that it takes."""
    missing = [info.name for info in model.inputs if info.name not in feed]
    if missing:
        raise UsageError(
            f"there is no array for input {missing[0]!r} of the reference",
            help=f"give --input {missing[0]}=FILE.npy",
        )
    outputs = model.run(None, {info.name: feed[info.name] for info in model.inputs})
    pairs = zip((info.name for info in model.outputs), outputs, strict=True)
    return dict(tensor for name, output in pairs for tensor in tensors_of(name, output))


def tensors_of(name: str, output: Any) -> Iterator[tuple[str, Array]]:
    """The tensors of an output: the elements of a sequence, or a list of maps as one matrix."""
    if isinstance(output, list) and all(isinstance(item, Mapping) for item in output):
        yield name, np.array([list(row.values()) for row in output])
    elif isinstance(output, list):
        yield from ((f"{name}[{index}]", np.asarray(x)) for index, x in enumerate(output))
    elif output is not None:
        yield name, np.asarray(output)
