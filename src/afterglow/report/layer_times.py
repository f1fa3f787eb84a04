"""The time that each layer of a model takes, by the model's own nodes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from afterglow.backends.capabilities import Profiling
from afterglow.driver.options import Options
from afterglow.driver.stages import Stages, find_backend
from afterglow.driver.state import import_with_state
from afterglow.frontends.base import NeedsValuesError, Source
from afterglow.quantization.simulate import Layer
from afterglow.report.profile import profile
from afterglow.runtime.device import LoadOptions
from afterglow.support.lazy_dataclass import dataclass

REPEAT = 10
"""Runs of which the fastest counts."""


@dataclass(frozen=True)
class LayerTimes:
    """The seconds of each step, with the model's nodes that it comes from."""

    steps: tuple[tuple[frozenset[str], float], ...]

    @property
    def total(self) -> float:
        """Seconds of all steps."""
        return sum(seconds for _, seconds in self.steps)

    def of(self, layer: Layer) -> float | None:
        """Seconds of the steps that come from a layer; None if there are none."""
        nodes = {layer.origin, layer.bias_origin} - {""}
        found = [seconds for origins, seconds in self.steps if origins & nodes]
        return sum(found) if found else None


def layer_times(source: Source, options: Options, feed: Mapping[str, Any]) -> LayerTimes | None:
    """Time each step on inputs; None if there is no single program, or nothing that times it."""
    backend = find_backend(options)
    arrays = {name: x for name, x in feed.items() if isinstance(x, np.ndarray)}
    if not isinstance(backend, Profiling) or len(arrays) < len(feed):
        return None
    bound = replace(options, shapes={name: x.shape for name, x in arrays.items()}, dims={})
    try:
        module, _ = import_with_state(source, bound)
    except NeedsValuesError:
        return None
    stages = Stages(bound)
    names = [placeholder.name for placeholder in module.main.inputs]
    program, _ = stages.plan(stages.lower(stages.optimise(module)))
    loading = LoadOptions(options.threads or 1)
    timed = profile(backend, program, [arrays[name] for name in names], loading, REPEAT)
    return LayerTimes(tuple((frozenset(step.origins), step.seconds) for step in timed.steps))
