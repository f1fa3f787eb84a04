"""Extents go into JSON and come back."""

from __future__ import annotations

import json

import pytest

from afterglow.types.extent import Dim, larger_extent, ranged
from afterglow.types.stored_extent import describe_extent, restore_extent

S, H = ranged(Dim("s", 1, 64)), ranged(Dim("h e", 32, 640, 32))


@pytest.mark.parametrize(
    "extent", [0, 7, S, H, 2 * S * H + 3, (S + 1) // 2, (S * 5) % 7, larger_extent(S, 5), H // 32]
)
def test_extents_are_stored_with_their_bounds(extent: int) -> None:
    restored = restore_extent(json.loads(json.dumps(describe_extent(extent))))
    assert restored == extent
    assert type(restored) is type(extent)
