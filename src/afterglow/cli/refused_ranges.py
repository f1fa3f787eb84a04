"""Which dynamic dimensions of a model no program can be ranged over, and why."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace

import numpy as np

from afterglow.cli.request import Request
from afterglow.driver.ranges import FEWEST, Ranges, given_ranges
from afterglow.driver.sources import Source
from afterglow.driver.stages import Stages
from afterglow.frontends.base import NeedsValuesError
from afterglow.runtime import TensorInfo
from afterglow.types import Array
from afterglow.types.extent import Dim


def refused_ranges(request: Request, source: Source) -> Mapping[str, str]:
    """The dimensions that no program can be ranged over, tried up to code generation."""
    given = given_ranges(request.options.dims)
    fixed = {name: e for name, e in request.options.dims.items() if name not in given}
    options = replace(request.options, dims=fixed, progress=None)
    inputs = source.signature(options).inputs
    if any(info.dtype is None or info.shape is None for info in inputs):
        return {}  # which are compiled as they come
    ranges = Ranges(given)
    arrays = {info.name: _example(info, given) for info in inputs}
    declared = {info.name: info.shape for info in inputs}

    def attempt(shapes: Mapping[str, tuple[int, ...]]) -> bool:
        stages = Stages(replace(options, shapes=shapes, dims={}))
        with suppress(NeedsValuesError):
            module, _ = source.load(stages.options)
            stages.plan(stages.lower(stages.optimise(module)))
        return True

    ranges.find(declared, arrays, attempt)
    return ranges.refused


def _example(info: TensorInfo, given: Mapping[str, Dim]) -> Array:
    """An array that an input may have, which takes no memory."""
    assert info.dtype is not None
    extents = (
        e if isinstance(e, int) else given[e].high if e is not None and e in given else FEWEST
        for e in info.shape or ()
    )
    return np.broadcast_to(np.zeros((), info.dtype.numpy), tuple(extents))
