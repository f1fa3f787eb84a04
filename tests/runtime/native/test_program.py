"""What is known of a compiled program: bounds of indices and work, for ranges too."""

from __future__ import annotations

import json

from afterglow.runtime.native.program import CheckedIndex, Native
from afterglow.types import IndexRange
from afterglow.types.extent import Dim, ranged

DIM = Dim("s", 1, 512)
S = ranged(DIM)


def test_a_check_of_a_ranged_axis_names_the_range_of_the_run() -> None:
    check = CheckedIndex("embed", "gather", "indices", IndexRange.places(S))
    assert str(check.error(9, {"s": 7})).startswith(
        "error: gather: indices must be from -7 to 6, got 9\n  in node 'embed'"
    )


def test_what_depends_on_extents_is_described_and_restored() -> None:
    check = CheckedIndex("embed", "gather", "indices", IndexRange.places(2 * S))
    native = Native("main_0", 3, 1000 * S * S + 5000 * ((S + 15) // 16))
    data = json.loads(json.dumps([check.describe(), native.describe()]))
    assert CheckedIndex.restore(data[0], [DIM]) == check
    assert Native.restore(data[1], [DIM]) == native
    exact = Native("main_0", 3, 12.5)
    assert Native.restore(json.loads(json.dumps(exact.describe())), []) == exact
