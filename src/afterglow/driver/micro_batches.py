"""The choice of micro-batches: how many items of a batch go through a program at a time."""

from __future__ import annotations

from collections.abc import Iterable

from afterglow.graph import Module
from afterglow.graph.dims import dims_of_functions
from afterglow.lowering.batch_items import has_items_first, items_are_apart
from afterglow.lowering.batch_traffic import BatchTraffic, CacheSharing
from afterglow.partition.split import equal_items
from afterglow.runtime.micro_batches import MicroBatches
from afterglow.types.extent import Dim, ranged

FEWEST = 2
"""Items of a ranged micro-batch at least: a program for one item exactly is another kernel."""

GAIN = 0.9
"""The part of its cost that a batch in micro-batches has at most: less is not worth the steps."""


def divide_batches(module: Module, cache: CacheSharing) -> tuple[Module, MicroBatches | None]:
    """The module for micro-batches and how batches are divided; None if they are best whole.

    They are best whole if their values stay in the cache, if the weights, which are read once for
    each micro-batch, are larger than what is no longer moved between the cache and memory, or if
    an item depends on others.
    """
    if cache.nbytes == 0 or len(module.functions) > 1 or module.states:
        return module, None
    dims = dims_of_functions(module.functions.values())
    if not dims:
        return _divide_exact(module, cache)
    (dim, *others) = dims
    if others or dim.low > 1 or dim.step != 1:
        return module, None
    return _divide_ranged(module, dim, cache)


def _divide_ranged(
    module: Module, dim: Dim, cache: CacheSharing
) -> tuple[Module, MicroBatches | None]:
    """Micro-batches of a ranged batch: of all extents up to one of them."""
    function = module.main
    most = _cheapest(module, dim.high, range(FEWEST, dim.high), cache)
    if most is None or not items_are_apart(function, dim):
        return module, None
    places = enumerate(function.inputs)
    own = (place for place, value in places if has_items_first(value.type, dim))
    batches = MicroBatches(dim, most, tuple(own))
    return module.bind({dim.name: ranged(batches.part)}), batches


def _divide_exact(module: Module, cache: CacheSharing) -> tuple[Module, MicroBatches | None]:
    """Micro-batches of one size, which divides the batch."""
    function = module.main
    extents = {output.value.type.shape[:1] for output in function.outputs}
    if len(extents) != 1 or () in extents:
        return module, None
    ((items,),) = extents
    sizes = (size for size in range(1, items) if items % size == 0)
    most = _cheapest(module, items, sizes, cache)
    part = None if most is None else equal_items(module, most)
    if part is None or most is None:
        return module, None
    pairs = enumerate(zip(function.inputs, part.main.inputs, strict=True))
    own = tuple(place for place, (whole, value) in pairs if whole.type != value.type)
    return part, MicroBatches(items, most, own)


def _cheapest(module: Module, items: int, sizes: Iterable[int], cache: CacheSharing) -> int | None:
    """The size of micro-batches that costs least; None if whole batches do, or hardly more."""
    if items <= 1:
        return None
    traffic = BatchTraffic.of(module.main, items)
    if traffic.fits(cache):
        return None
    costs = {size: traffic.cost(size, cache) for size in sizes}
    least = min(costs.values(), default=float("inf"))
    if least > GAIN * traffic.cost(items, cache):
        return None
    return max(size for size, cost in costs.items() if cost == least)
