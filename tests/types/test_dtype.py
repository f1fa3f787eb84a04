"""Element types: one object for each."""

from __future__ import annotations

import copy
import pickle

from afterglow.types.dtype import DTYPES


def test_a_copy_of_an_element_type_is_the_type_itself() -> None:
    for dtype in DTYPES.values():
        assert pickle.loads(pickle.dumps(dtype)) is dtype
        assert copy.deepcopy(dtype) is dtype
