"""Compiling a model for one call: whole, or in parts where data decide shapes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from copy import copy
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from afterglow.driver.options import Options
from afterglow.driver.sources import Source
from afterglow.frontends.onnx import FEW, Cut, NeedsValuesError, Part
from afterglow.runtime.segmented import SegmentedVersion
from afterglow.runtime.version import Version
from afterglow.types import TensorType

Build: TypeAlias = Callable[[Options, Iterable[str]], Version]
"""Compiles with options; the names say on whose values they depend."""


@dataclass(frozen=True)
class CallSpecialiser:
    """Compiles a model for what a call brings.

    Few integers that decide shapes are bound to their values. At other data that do so the model is
    cut: what comes before is compiled, the host runs the nodes in question, and the rest is
    compiled for the shapes that came out. `tried` are results that the host was asked for before.
    """

    source: Source
    options: Options
    build: Build
    tried: frozenset[str] = field(default_factory=frozenset)

    def compile_for(self, feed: Mapping[str, Any]) -> Version | SegmentedVersion:
        """A version for these inputs, and for the values that earlier parts computed of them."""
        given = self.options.part.given if self.options.part is not None else {}
        arrays = {name: x for name, x in feed.items() if isinstance(x, np.ndarray)}
        shapes = {name: x.shape for name, x in arrays.items() if name not in given}
        bound: dict[str, Any] = {}
        while True:
            values = {**self.options.values, **bound}
            options = replace(self.options, shapes=shapes, dims={}, values=values)
            try:
                return self.build(options, bound)
            except NeedsValuesError as error:
                wanted = self._deciding(error, feed) - bound.keys()
                if not wanted and error.cut is None:
                    raise
                if not wanted and error.cut is not None:
                    return self._cut(options, bound, error.cut)
                bound.update((name, copy(feed[name])) for name in sorted(wanted))

    def _deciding(self, error: NeedsValuesError, feed: Mapping[str, Any]) -> set[str]:
        """The inputs whose values are bound because shapes depend on them."""
        cut = error.cut
        if cut is None or not self.tried.isdisjoint(cut.host):
            return {name for name in error.inputs if name in feed}
        stops = [stop.inputs for stop in cut.stops]
        return {x for inputs in stops if all(_is_few(feed[y]) for y in inputs) for x in inputs}

    def _cut(self, options: Options, bound: Mapping[str, Any], cut: Cut) -> SegmentedVersion:
        given = options.part.given if options.part is not None else {}
        first = replace(options, part=Part(given, cut.crossing))
        return SegmentedVersion(
            self.build(first, bound) if cut.crossing else None,
            cut.crossing,
            self.source.on_host(cut, options),
            partial(self._compile_rest, cut),
            frozenset(bound),
        )

    def _compile_rest(self, cut: Cut, known: Mapping[str, Any]) -> Version | SegmentedVersion:
        options = replace(self.options, part=Part(self._given(known)))
        rest = replace(self, options=options, tried=self.tried | set(cut.host))
        return rest.compile_for(known)

    def _given(self, known: Mapping[str, Any]) -> dict[str, TensorType]:
        """What is known besides the inputs of the model."""
        inputs = {info.name for info in self.source.signature(self.options).inputs}
        return {name: TensorType.of(x) for name, x in known.items() if name not in inputs}


def _is_few(value: Any) -> bool:
    """Whether a value is worth a version of its own."""
    if not isinstance(value, np.ndarray):
        return True
    return value.dtype.kind in "iub" and value.size <= FEW
