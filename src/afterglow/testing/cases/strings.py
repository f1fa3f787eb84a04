"""Cases of afterglow.ops.strings and afterglow.ops.vocabulary."""

from __future__ import annotations

import numpy as np

from afterglow.ops.strings import ChangeCase, LetterCase, RegexFullMatch, StringConcat
from afterglow.ops.vocabulary import LookUp, NgramCount
from afterglow.testing.cases.case import boolean, case, f32, i16, i32, i64, string

_WORDS = np.array(["Straße", "ÄRGER", ""], object)
_NAN = np.array([np.nan, 1, 1, 3], np.float32)

CASES = [
    case(StringConcat(), string(2, 3), string(3)),
    case(StringConcat(), string(), string()),
    case(StringConcat(), string(0, 3), string(1)),
    *(case(ChangeCase(way), string(3), given={0: _WORDS}) for way in LetterCase),
    case(ChangeCase(LetterCase.UPPER), string()),
    case(RegexFullMatch("a|long.*"), string(2, 3)),
    case(RegexFullMatch(r"\w*"), string(0)),
    case(RegexFullMatch(""), string()),
    case(LookUp(), i64(3, 4), i64(3), f32(3), f32()),
    case(LookUp(), i32(5), i32(0), i16(0), i16()),
    case(LookUp(), string(2, 3), string(2), i64(2), i64()),
    case(LookUp(), i64(3), i64(4), string(4), string()),
    case(LookUp(), f32(4), f32(4), boolean(4), boolean(), given={0: _NAN, 1: _NAN[::-1].copy()}),
    case(LookUp(), string(), string(2), i64(2), i64()),
    case(LookUp(), f32(0, 2), f32(2), f32(2), f32()),
    *(
        case(NgramCount((0, 2), 1, 2, skipped, 5), i64(*shape), i64(6), i64(4), given=given)
        for skipped in (0, 2)
        for shape in ((2, 9), (9,), (1,), (0, 3), (2, 0))
        for given in [{1: np.array([0, 1, 0, 1, 2, 0]), 2: np.array([4, 0, 1, 2])}]
    ),
    case(NgramCount((0, 1), 2, 2, 0, 3), string(8), string(3), i64(2), given={2: np.array([0, 2])}),
]
