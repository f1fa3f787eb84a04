"""Cases of afterglow.ops.movement."""

from __future__ import annotations

import numpy as np

from afterglow.ops.append_rows import AppendRows
from afterglow.ops.movement import Concat, Expand, Pad, PadMode, Reshape, Slice, Tile, Transpose
from afterglow.ops.overwrite import Overwrite
from afterglow.testing.cases.case import bf16, boolean, case, f16, f32, i8, i32, i64, string, u8

CASES = [
    case(Reshape((3, 4)), f32(2, 6)),
    case(Reshape((0, 5)), f32(0, 3)),
    case(Reshape(()), i64(1, 1)),
    case(Reshape((4,)), string(2, 2)),
    case(Transpose((2, 0, 1)), f32(2, 3, 4)),
    case(Transpose((0, 2, 3, 1)), i8(2, 3, 4, 5)),
    case(Transpose(()), f32()),
    case(Transpose((1, 0)), string(2, 3)),
    case(Transpose((1, 0)), bf16(0, 3)),
    case(Expand((4, 2, 3)), f32(2, 1)),
    case(Expand((2, 2)), string()),
    case(Expand((2, 0)), f32(2, 1)),
    case(Expand((3, 2)), bf16(3, 2)),
    case(Concat(1), f32(2, 3), f32(2, 1), f32(2, 2)),
    case(Concat(-1), i64(2, 0), i64(2, 2)),
    case(Concat(0), string(1), string(2)),
    case(Concat(0), boolean(3)),
    case(Slice((1, 0), (2, 3), (1, 1)), f32(4, 3)),
    case(Slice((3, 0), (4, 2), (-1, 2)), f32(4, 3)),
    case(Slice((2,), (2,), (-2,)), i32(3)),
    case(Slice((7,), (0,), (1,)), f32(4)),
    case(Slice((), (), ()), f32()),
    case(Slice((1,), (2,), (1,)), string(4)),
    case(Pad((1, 0), (0, 2)), f32(2, 3)),
    case(Pad((1,), (2,)), f16(2), f16()),
    case(Pad((2, 1), (0, 1)), i64(0, 3), i64()),
    case(Pad((1,), (1,)), string(2)),
    case(Pad((), ()), f32()),
    *(
        case(Pad((2, 0, 3), (1, 2, 0), mode), f32(3, 4, 5))
        for mode in (PadMode.CONSTANT, PadMode.REFLECT, PadMode.EDGE, PadMode.WRAP)
    ),
    case(Pad((5,), (7,), PadMode.REFLECT), i32(3)),
    case(Pad((5,), (7,), PadMode.WRAP), u8(3)),
    case(Pad((2,), (1,), PadMode.REFLECT), f32(1), given={0: np.array([3], np.float32)}),
    case(Pad((0, 1), (0, 1), PadMode.EDGE), f32(0, 2)),
    case(Overwrite((1, 0)), f32(4, 3), f32(2, 2)),
    case(Overwrite((0, 2, 0)), i8(2, 3, 4), i8(2, 1, 4)),
    case(Overwrite((3,)), bf16(4), bf16(0)),
    case(Overwrite((1,)), string(3), string(2)),
    case(Overwrite(()), f32(), f32()),
    case(
        AppendRows(6),
        f32(2, 3, 4, 5),
        f32(2, 3, 2, 5),
        i64(2),
        given={2: np.array([4, 1], np.int64)},
    ),
    case(AppendRows(4), f16(1, 2, 4, 3), f16(1, 2, 1, 3), i64(1), given={2: np.array([2])}),
    case(Tile((2, 1, 3)), f32(2, 3, 1)),
    case(Tile((0, 2)), f32(2, 3)),
    case(Tile(()), f32()),
    case(Tile((2,)), string(2)),
]
