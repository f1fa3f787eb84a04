"""Ranged extents in code: what is computed, and how often."""

from __future__ import annotations

from afterglow.backends.cpu import Module, Target
from afterglow.types.dtype import i64
from afterglow.types.extent import Dim, ranged

S = ranged(Dim("s", 1, 512))


def test_what_extents_have_in_common_is_computed_once() -> None:
    module = Module(Target.of("x86-64-v3"))
    with module.function("f") as e:
        place = e.pointer("place", i64)
        e.dim_value = lambda dim: place.load()
        place.store(e.index(S // 3 * 5) + e.index(S // 3 * S) + e.index(S // 3 + 7))
    assert module.text.count("sdiv") == 1
    assert module.text.count(" load ") == 1
