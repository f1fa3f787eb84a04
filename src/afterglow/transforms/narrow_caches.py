"""Keep the caches of attention in fewer bits: rows are rounded as they are written.

Caches of f16 hold the nearest floats. Those of i8 hold multiples of a scale for each token and
head, 1/127 of the row's largest number, which has a state of its own: NAME.scales.
"""

from __future__ import annotations

from collections.abc import Sequence

from afterglow.graph import Builder, Function, Module, Node, Value
from afterglow.graph.value import Placeholder, PlaceholderKind
from afterglow.ops.cached_attention import CachedAttention, WriteRows
from afterglow.ops.conversion import Cast
from afterglow.ops.elementwise import Abs, Div, Less, Round, Where, scalar
from afterglow.ops.reduction import ReduceMax
from afterglow.ops.rounded_rows import LEAST_PEAK, ROUNDED_PEAK
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types import DType
from afterglow.types.dtype import f32, i8


def narrow_caches(module: Module, dtype: DType) -> bool:
    """Store caches of f32 as f16 or i8, in place; False if the module has none.

    They are states of main that one `write_rows` changes and one `cached_attention` reads.
    """
    narrowed = False
    for node in list(module.main.nodes):
        if isinstance(node.op, CachedAttention):
            found = (_cache_of(module.main, value) for value in node.given[1:3])
            caches = [cache for cache in found if cache is not None]
            if len(caches) == 2:
                _narrow(module, node, caches, dtype)
                narrowed = True
    return narrowed


@dataclass(frozen=True)
class _Cache:
    """A state, and the node that writes rows into it."""

    state: Placeholder
    write: Node


def _cache_of(function: Function, value: Value) -> _Cache | None:
    """The cache whose new contents a value is, if nothing else reads or changes it."""
    match value.producer:
        case Node(WriteRows(), (Placeholder(kind=PlaceholderKind.STATE) as state, *_)) as write:
            stored = [update.state for update in function.updates if update.value is value]
            alone = value.use_count == state.use_count == 1 and stored == [state]
            returned = any(output.value is value for output in function.outputs)
            if alone and not returned and state.type.dtype is f32:
                return _Cache(state, write)
    return None


def _narrow(module: Module, attention: Node, caches: Sequence[_Cache], dtype: DType) -> None:
    """Let an attention read caches of another type."""
    function = module.main
    written = [_write(module, cache, dtype) for cache in caches]
    query, _, _, positions, sequences = attention.operands
    b = Builder(function, attention, origins=attention.origins, predicate=attention.predicate)
    (keys, *key_scales), (values, *value_scales) = written
    places = positions, sequences
    result = b.emit(attention.op, query, keys, values, *places, *key_scales, *value_scales)
    function.substitute(attention, result)
    for cache, (rows, *_) in zip(caches, written, strict=True):
        name = cache.write.name
        function.erase(cache.write)
        function.rename(rows, name)


def _write(module: Module, cache: _Cache, dtype: DType) -> list[Value]:
    """Write rows into a state of another type: its contents, and the scales of i8."""
    function, state, write = module.main, cache.state, cache.write
    _, rows, positions, sequences = write.operands
    assert rows is not None
    b = Builder(function, write, name=write.name, origins=write.origins, predicate=write.predicate)
    parts = _rounded(b, rows) if dtype is i8 else [b.emit(Cast(dtype), rows)]
    function.updates = [update for update in function.updates if update.state is not state]
    module.erase_state(state)
    contents = []
    for name, part in zip((state.name, f"{state.name}.scales"), parts, strict=False):
        shape = (*state.type.shape[:3], part.type.shape[2])
        kept = module.state(name, part.type.with_shape(shape))
        contents.append(b.emit(WriteRows(), kept, part, positions, sequences))
        function.update(kept, contents[-1])
    return contents


def _rounded(b: Builder, rows: Value) -> list[Value]:
    """Rows as multiples from -127 to 127 of their scales, and the scales."""
    peak = b.emit(ReduceMax((2,), True), b.emit(Abs(), rows))
    tiny = b.emit(Less(), peak, scalar(b, LEAST_PEAK, rows))  # such as zeros: no scale fits
    share = b.emit(Div(), peak, scalar(b, ROUNDED_PEAK, rows))
    scales = b.emit(Where(), tiny, scalar(b, 1, rows), share)
    return [b.emit(Cast(i8), b.emit(Round(), b.emit(Div(), rows, scales))), scales]
