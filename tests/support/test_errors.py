"""Errors that mean that memory could not be had."""

from __future__ import annotations

import numpy as np
import pytest

from afterglow.support.errors import lacks_memory, out_of_memory


@pytest.mark.parametrize("shape", [(2**40, 2**40), (2**63,)])
def test_an_array_beyond_all_addresses_lacks_memory(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=r"too big|Maximum allowed") as caught:
        np.empty(shape)
    assert lacks_memory(caught.value)
    assert str(out_of_memory("run it", caught.value)).startswith(
        "error: not enough memory to run it: "
    )


def test_other_errors_do_not_lack_memory() -> None:
    assert lacks_memory(MemoryError())
    assert not lacks_memory(ValueError("could not convert"))
    assert not lacks_memory(TypeError("array is too big"))
