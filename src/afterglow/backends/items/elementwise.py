"""Element-wise steps as one kernel: an item for each few neighbouring elements."""

from __future__ import annotations

import math
from collections.abc import Sequence

from afterglow.backends.broadcast import Strides, chain_strides, merge_alike
from afterglow.backends.items.chain import places_of, run_chain, store_results
from afterglow.backends.items.lanes import lanes_within
from afterglow.backends.items.language import Kernel
from afterglow.backends.pointwise.value import ValueT


def write_elementwise(kernel: Kernel[ValueT], most: int = 1) -> int:
    """Write the kernel, with at most so many lanes; how many there are."""
    steps = kernel.job.after
    shape = steps[0].outs[0].type.shape
    strides = chain_strides(steps, shape)
    merged, found = merge_alike(shape, list(strides.values()))
    strides = dict(zip(strides, found, strict=True))
    lanes = _lanes(merged, list(strides.values()), most)
    wide = (*merged[:-1], merged[-1] // lanes)
    item = kernel.each(math.prod(wide))
    places = places_of(kernel, item, wide)
    places[-1] = places[-1] * lanes
    values = run_chain(kernel, steps, {}, places, strides, lanes)
    store_results(kernel, values, places, strides, lanes)
    return lanes


def _lanes(shape: Sequence[int], strides: Sequence[Strides], most: int) -> int:
    """Neighbouring elements that one item can compute: 1, 2, 4, 8 or 16."""
    if any(each[-1] not in (0, 1) for each in strides):
        return 1
    return lanes_within(shape[-1], most)
