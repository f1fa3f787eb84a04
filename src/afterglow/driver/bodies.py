"""Bodies of If, Loop and Scan that the host drives: compiled for the shapes that come in.

A body is a model of its own, which takes what it captures, too. Until a version for some shapes is
worth compiling, its nodes run by their definition.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import count
from threading import RLock
from typing import Any, TypeAlias

import numpy as np

from afterglow.driver.bound import BoundValues
from afterglow.driver.options import Options
from afterglow.driver.ranges import Ranges
from afterglow.driver.specialise import Build, CallSpecialiser, InputShapes, given_type
from afterglow.frontends.base import (
    RUN_NUMBER,
    Body,
    BoundaryType,
    HostLimits,
    Partition,
    Source,
)
from afterglow.runtime.segmented import CONTINUATIONS, SegmentedVersion
from afterglow.runtime.tier_up import TieredVersions
from afterglow.runtime.version import Version
from afterglow.runtime.versions import Versions
from afterglow.support.errors import UnsupportedError
from afterglow.types import TensorType

MOST_BODIES = 256
"""How many bodies of a model are cached, with their versions; the least recently used goes."""

MakeBuild: TypeAlias = Callable[[Source, Options], Build]
"""Makes what compiles a source."""


class Bodies:
    """The bodies of one model."""

    def __init__(self, source: Source, options: Options, make_build: MakeBuild) -> None:
        self.source = source
        self.options = options
        self.make_build = make_build
        self._bodies: OrderedDict[object, _Body] = OrderedDict()
        self._runs = count()
        self._lock = RLock()

    def run(self, body: Body, feed: Mapping[str, Any]) -> list[Any]:
        """What a body returns for what it takes and captures."""
        results = self._find(body, feed).run({**feed, RUN_NUMBER: np.array(next(self._runs))})
        return [results[name] for name in body.output_names]

    def _find(self, body: Body, feed: Mapping[str, Any]) -> _Body:
        key = (body.key, *((name, _kind(value)) for name, value in feed.items()))
        with self._lock:
            if key not in self._bodies:
                self._bodies[key] = _Body(self, body, [*feed, RUN_NUMBER])
                if len(self._bodies) > MOST_BODIES:
                    self._bodies.popitem(last=False)
            self._bodies.move_to_end(key)
            return self._bodies[key]


def _kind(value: Any) -> object:
    """What values have in common whose versions of one body share a cache."""
    return value.dtype if isinstance(value, np.ndarray) else type(value)


class _Body:
    """One body, for inputs of some names and element types."""

    def __init__(self, bodies: Bodies, body: Body, names: list[str]) -> None:
        self.fixed = body.fixed
        source = bodies.source.body_source(body, [*body.fixed, *names])
        self.work = None if source is None else _BodyWork(bodies, body, source, names)

    def run(self, feed: Mapping[str, Any]) -> dict[str, Any]:
        """What it returns by name, besides all that it was given."""
        computed = {} if self.work is None else self.work.run(feed)
        return {**self.fixed, **feed, **computed}


class _BodyWork:
    """What a body computes, interpreted or compiled."""

    def __init__(self, bodies: Bodies, body: Body, source: Source, names: list[str]) -> None:
        self.bodies = bodies
        self.source = source
        self.options = replace(
            bodies.options, shapes={}, dims={}, values=body.fixed, partition=None
        )
        self.outputs = self.source.output_names
        limits = HostLimits(self.options.policy.unchecked, self.options.max_memory)
        self.interpret = self.source.on_host(self.outputs, names, body.fixed, bodies.run, limits)
        self.is_repeated = body.is_repeated
        self.versions: Versions[Version | SegmentedVersion] = (
            Versions(CONTINUATIONS) if body.is_repeated else TieredVersions(CONTINUATIONS)
        )
        self.bound = BoundValues(most=1)
        """What changes from iteration to iteration is not worth a version for each value."""
        self.ranges = Ranges({})
        self.is_compiled = True
        """Whether to compile it: not if that was tried, and cannot be."""

    def run(self, feed: Mapping[str, Any]) -> Mapping[str, Any]:
        """What it computes by name."""
        version = self._version(feed) if self.is_compiled else None
        if self.is_repeated and not isinstance(version, Version):
            self.is_compiled = False
            raise UnsupportedError("these iterations cannot be compiled as one piece of code")
        if version is None:
            return self.interpret(feed)
        return dict(zip(self.outputs, version.run(feed), strict=True))

    def _version(self, feed: Mapping[str, Any]) -> Version | SegmentedVersion | None:
        try:
            return self.versions.find_if_hot(feed, feed, self._compile)
        except UnsupportedError:
            self.is_compiled = False
            return None

    def _compile(self, feed: Mapping[str, Any]) -> Version | SegmentedVersion:
        """A version for the shapes of a call, with ranges for extents that were others before."""

        def make(ranged: InputShapes | None = None) -> Version | SegmentedVersion:
            values = {**self.options.values, **feed}
            given = {name: _given(value, name, ranged or {}) for name, value in values.items()}
            options = replace(self.options, partition=Partition(given))
            build = self.bodies.make_build(self.source, options)
            specialiser = CallSpecialiser(
                self.source, options, build, self.bodies.run, self.bound, tiered=True
            )
            return specialiser.compile_for(feed, ranged)

        return self.ranges.find(None, feed, make) or make()


def _given(value: Any, name: str, ranged: InputShapes) -> BoundaryType:
    """What a compiler is told of a value that a body takes, of which the shape may be ranged."""
    type = given_type(value)
    if isinstance(type, TensorType) and name in ranged:
        return replace(type, shape=ranged[name])
    return type
