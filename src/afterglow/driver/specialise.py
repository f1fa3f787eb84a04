"""Compiling a model for one call: whole, or in partitions where shapes depend on data."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import field, replace
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np

from afterglow.driver.bound import BoundValues
from afterglow.driver.options import Options
from afterglow.driver.ranges import Ranges
from afterglow.frontends.base import (
    Boundary,
    BoundaryType,
    HostLimits,
    HostRun,
    NeedsValuesError,
    Partition,
    RunBody,
    Source,
)
from afterglow.frontends.partition import is_done
from afterglow.runtime import TensorInfo
from afterglow.runtime.extents import Shapes, has_ranges
from afterglow.runtime.segmented import CONTINUATIONS, SegmentedVersion
from afterglow.runtime.tier_up import TieredVersions
from afterglow.runtime.version import Version
from afterglow.runtime.versions import Versions, shapes_of
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types import Array, TensorType

InputShapes: TypeAlias = Mapping[str, tuple[int, ...]]
"""Shapes of inputs by name; extents may be ranged."""
Build: TypeAlias = Callable[[Options, Iterable[str]], Version]
"""Compiles with options; the names say on whose values they depend."""


@dataclass(frozen=True)
class CallSpecialiser:
    """Compiles a model for what a call brings.

    A few integers that decide shapes are bound to their values. Where other data do so, the model
    is partitioned: what comes before is compiled, the host runs the nodes in question, and what
    follows is compiled for the shapes that came out. `tried` are results that the host was asked
    for before. `run_body` runs the bodies that the host drives. A `tiered` specialiser interprets
    what follows until it reaches the tier-up threshold. `bound` counts the values with versions.
    """

    source: Source
    options: Options
    build: Build
    run_body: RunBody
    bound: BoundValues
    tiered: bool = False
    tried: frozenset[str] = field(default_factory=frozenset)

    def compile_for(
        self, feed: Mapping[str, Any], ranged: InputShapes | None = None
    ) -> Version | SegmentedVersion:
        """A version for these inputs, and for the values that earlier parts computed of them.

        If `ranged` has shapes with ranged extents, the version is for all of them.
        """
        given = self.options.partition.given if self.options.partition is not None else {}
        arrays = {name: x.shape for name, x in feed.items() if isinstance(x, np.ndarray)}
        shapes = {name: x for name, x in {**arrays, **(ranged or {})}.items() if name not in given}
        version = self._compiled(feed, shapes)
        return version if ranged is None else replace(version, ranged_shapes=_taken(feed, ranged))

    def _compiled(self, feed: Mapping[str, Any], shapes: InputShapes) -> Version | SegmentedVersion:
        bound: dict[str, Any] = {}
        is_certain = False
        while True:
            values = {**self.options.values, **bound}
            options = replace(self.options, shapes=shapes, dims={}, values=values)
            try:
                return self.build(options, bound)
            except NeedsValuesError as error:
                wanted = self._deciding(error, feed) - bound.keys()
                if not wanted and error.boundary is None:
                    raise
                if not wanted and error.boundary is not None:
                    try:
                        return self._partitioned(options, bound, error.boundary)
                    except NeedsValuesError:  # as code cannot have the lengths that data tell
                        if is_certain:
                            raise
                        is_certain = True
                bound.update((name, copy(feed[name])) for name in sorted(wanted))

    def compile_first(
        self, error: NeedsValuesError, inputs: Sequence[TensorInfo]
    ) -> SegmentedVersion | None:
        """The partition before the boundary of an error; None if values are asked for first."""
        if error.boundary is None or not all(info.is_exact for info in inputs):
            return None
        feed = {info.name: _made_up(info) for info in inputs}
        if replace(self, bound=BoundValues())._deciding(error, feed):  # which counts no such values
            return None
        shapes = {info.name: info.exact_shape for info in inputs}
        options = replace(self.options, shapes=shapes, dims={})
        version = self._partitioned(options, {}, error.boundary)
        return replace(version, ranged_shapes=_taken(feed, shapes))

    def _deciding(self, error: NeedsValuesError, feed: Mapping[str, Any]) -> set[str]:
        """The inputs whose values are bound because shapes depend on them."""
        boundary = error.boundary
        if boundary is None or not self.tried.isdisjoint(boundary.host):
            return {name for name in error.inputs if name in feed}
        takes = self.bound.takes
        nodes = [node.inputs for node in boundary.nodes]
        return {x for inputs in nodes if all(takes(y, feed[y]) for y in inputs) for x in inputs}

    def _partitioned(
        self, options: Options, bound: Mapping[str, Any], boundary: Boundary
    ) -> SegmentedVersion:
        given = options.partition.given if options.partition is not None else {}
        first = replace(options, partition=Partition(given, boundary.values))
        return SegmentedVersion(
            self.build(first, bound) if boundary.values else None,
            boundary.values,
            PartitionedModel(self, boundary),
            frozenset(bound),
            TieredVersions(CONTINUATIONS) if self.tiered else Versions(CONTINUATIONS),
            frozenset(self.bound.unbound),
        )


@dataclass(frozen=True)
class PartitionedModel:
    """How a model goes on behind a boundary that a specialiser came to."""

    specialiser: CallSpecialiser
    boundary: Boundary
    ranges: Ranges = field(default_factory=lambda: Ranges({}))

    def run_host(self, known: Mapping[str, Any]) -> Mapping[str, Any]:
        """Run the nodes that stopped; of those that do the same, one."""
        results = self._on_host(known) if self.boundary.host else {}
        return {**results, **{name: results[twin] for name, twin in self.boundary.twins.items()}}

    @cached_property
    def _on_host(self) -> HostRun:
        return self._host_run(self.boundary.host, self._given_before)

    @cached_property
    def ends_here(self) -> bool:
        """Whether no node is left behind the boundary."""
        return is_done(self.specialiser.source.graph.main, self._known_names)

    def run_rest(self, known: Mapping[str, Any]) -> list[Any]:
        """Run the nodes that are left by their definition."""
        results = {**known, **self._rest_on_host(known)}
        return [results[name] for name in self.specialiser.source.output_names]

    @cached_property
    def _rest_on_host(self) -> HostRun:
        known = self._known_names
        outputs = [x for x in self.specialiser.source.output_names if x not in known]
        return self._host_run(outputs, known)

    @property
    def _given_before(self) -> set[str]:
        """What is known before the host begins."""
        partition = self.specialiser.options.partition
        return {*(partition.given if partition is not None else ()), *self.boundary.values}

    @cached_property
    def _known_names(self) -> set[str]:
        """What is known once the host is done."""
        source, options = self.specialiser.source, self.specialiser.options
        inputs = {info.name for info in source.signature(options).inputs}
        return {*inputs, *self._given_before, *self.boundary.host, *self.boundary.twins}

    def _host_run(self, wanted: Sequence[str], given: Iterable[str]) -> HostRun:
        source, options = self.specialiser.source, self.specialiser.options
        limits = HostLimits(options.policy.unchecked, options.max_memory)
        run_body = self.specialiser.run_body
        return source.on_host(wanted, given, options.values, run_body, limits)

    def compile_rest(self, known: Mapping[str, Any]) -> Version | SegmentedVersion:
        """Compile what comes behind, with all that is known as inputs.

        Their shapes are exact until they turn out to vary, and ranged from then on.
        """
        tried = self.specialiser.tried | set(self.boundary.host)

        def make(ranged: InputShapes | None = None) -> Version | SegmentedVersion:
            partition = Partition(self._given(known, ranged or {}))
            options = replace(self.specialiser.options, partition=partition)
            specialiser = replace(self.specialiser, options=options, tried=tried)
            return specialiser.compile_for(known, ranged)

        return self.ranges.find(None, known, make) or make()

    def _given(self, known: Mapping[str, Any], ranged: InputShapes) -> dict[str, BoundaryType]:
        """What is known besides the inputs of the model."""
        source, options = self.specialiser.source, self.specialiser.options
        inputs = {info.name for info in source.signature(options).inputs}
        before = {} if options.partition is None else options.partition.given
        given = {name: given for name, given in before.items() if name in options.values}
        for name, value in known.items():
            if name not in inputs:
                type = given_type(value)
                if isinstance(type, TensorType) and name in ranged:
                    type = replace(type, shape=ranged[name])
                given[name] = type
        return given

    def describe(self) -> dict[str, Any]:
        """What the host computes, and what was given and tried before."""
        partition = self.specialiser.options.partition
        return {
            "host": list(self.boundary.host),
            "twins": dict(self.boundary.twins),
            "given": [] if partition is None else list(partition.given),
            "tried": sorted(self.specialiser.tried),
            "unbound": sorted(self.specialiser.bound.unbound),
        }


def _made_up(info: TensorInfo) -> Array:
    """An array of the type that an input has, which takes no memory; what it holds is nothing."""
    assert info.dtype is not None
    return np.broadcast_to(np.zeros((), info.dtype.numpy), info.exact_shape)


def _taken(feed: Mapping[str, Any], ranged: InputShapes) -> Shapes | None:
    """The shapes of all inputs, in their order; None if they have no ranges."""
    parts = ((ranged[n],) if n in ranged else shapes_of(value) for n, value in feed.items())
    shapes = tuple(shape for part in parts for shape in part)
    return shapes if has_ranges(shapes) else None


def given_type(value: Any) -> BoundaryType:
    """What a compiler is told of a value: of a list the types of its elements."""
    if isinstance(value, list):
        return tuple(map(TensorType.of, value))
    return None if value is None else TensorType.of(value)
