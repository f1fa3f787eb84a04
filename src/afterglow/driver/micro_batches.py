"""The choice of micro-batches: how many items of a batch go through a program at a time."""

from __future__ import annotations

from afterglow.graph import Constant, Function, Module
from afterglow.graph.dims import dims_of_functions
from afterglow.lowering import peak_bytes
from afterglow.lowering.batch_items import has_items_first, items_are_apart
from afterglow.runtime.micro_batches import MicroBatches
from afterglow.types.extent import Dim

CACHE_PART = 0.5
"""How much of the cache the values between inputs and outputs may take: weights pass through it."""

FEWEST = 2
"""Items of a micro-batch at least: of a single one, kernels have hardly enough to do."""


def choose_micro_batches(module: Module, cache_bytes: int) -> MicroBatches | None:
    """Micro-batches whose values stay in a cache; None if batches do, or cannot be divided.

    The weights are read once for each of them, which must be less than what is no longer moved
    between the cache and memory.
    """
    dim = _batch_dim(module)
    if dim is None or cache_bytes == 0:
        return None
    function = module.main
    item_bytes = max(1, peak_bytes(function) // dim.high)
    most = max(FEWEST, int(CACHE_PART * cache_bytes) // item_bytes)
    moved = 2 * _made_bytes(function) // dim.high
    if most >= dim.high or _weight_bytes(function) > most * moved:
        return None
    if not items_are_apart(function, dim):
        return None
    places = enumerate(function.inputs)
    own = (place for place, value in places if has_items_first(value.type, dim))
    return MicroBatches(dim, most, tuple(own))


def _batch_dim(module: Module) -> Dim | None:
    """The only dimension of a module, if a program for few of its extents can serve the others."""
    dims = dims_of_functions(module.functions.values())
    if len(dims) != 1 or len(module.functions) > 1 or module.states:
        return None
    (dim,) = dims
    return dim if dim.low <= 1 and dim.step == 1 else None


def _made_bytes(function: Function) -> int:
    return sum(result.type.nbytes for node in function.nodes for result in node.results)


def _weight_bytes(function: Function) -> int:
    operands = {operand for node in function.nodes for operand in node.operands}
    return sum(value.type.nbytes for value in operands if isinstance(value, Constant))
