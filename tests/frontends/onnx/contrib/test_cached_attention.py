"""GroupQueryAttention of com.microsoft, as ONNX Runtime computes it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from afterglow.types import Array
from tests.frontends.onnx.against_runtime import MICROSOFT, check_node

HEADS, SHARED, WIDTH = 4, 2, 32
rng = np.random.default_rng(5)


def floats(*shape: int) -> Array:
    return rng.normal(size=shape).astype(np.float32)


def caches(places: int = 32, width: int = WIDTH) -> tuple[Array, Array]:
    angles = np.outer(np.arange(places), 0.3 ** np.arange(width // 2))
    return np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)


def check(
    new: int,
    *lasts: int,
    past: int | None = None,
    total: int | None = None,
    packed: bool = False,
    extra: tuple[Array | None, ...] = (),
    **attributes: Any,
) -> None:
    """So many new keys in each of a batch, the last of which is at `lasts`."""
    batch = len(lasts)
    if packed:
        given = (floats(batch, new, (HEADS + 2 * SHARED) * WIDTH), None, None)
    else:
        given = floats(batch, new, HEADS * WIDTH), *(floats(batch, new, SHARED * WIDTH),) * 2
    before = (None, None) if past is None else (floats(batch, SHARED, past, WIDTH),) * 2
    length = np.array(max(lasts) + 1 if total is None else total, np.int32)
    check_node(
        "GroupQueryAttention",
        *given,
        *before,
        np.array(lasts, np.int32),
        length,
        *extra,
        outputs=3,
        domain=MICROSOFT,
        constants=(6,),
        tolerance=2e-5,
        num_heads=HEADS,
        kv_num_heads=SHARED,
        **attributes,
    )


@pytest.mark.parametrize("packed", [False, True])
def test_the_prompt(packed: bool) -> None:
    check(5, 4, packed=packed)
    check(5, 4, 4, packed=packed)
    check(5, 4, 4, packed=packed, extra=caches(), do_rotary=1)


def test_tokens_behind_a_past() -> None:
    check(1, 6, past=6)
    check(1, 6, past=6, packed=True, extra=caches(), do_rotary=1)
    check(3, 8, past=6, extra=caches(), do_rotary=1, rotary_interleaved=1)
    check(1, 6, 6, past=6, extra=caches(), do_rotary=1)


def test_pasts_of_different_lengths() -> None:
    check(1, 4, 6, 2, past=6)
    check(1, 4, 6, 2, past=6, extra=caches(), do_rotary=1)


def test_a_part_of_a_head_turns() -> None:
    check(1, 6, past=6, extra=caches(width=WIDTH // 2), do_rotary=1)


def test_windows_caps_scales_and_sinks() -> None:
    check(5, 4, local_window_size=2)
    check(1, 6, past=6, local_window_size=3)
    check(1, 6, 3, past=6, local_window_size=3)
    check(1, 6, past=6, softcap=2.0, scale=0.7)
    check(5, 4, smooth_softmax=1)
    check(1, 6, past=6, extra=(None, None, None, None, floats(HEADS)))


def test_what_is_added_to_scores() -> None:
    check(5, 4, extra=(None, None, None, floats(1, 1, 5, 5)))
    check(1, 6, past=6, extra=(None, None, None, floats(1, 1, 1, 7)))


def test_positions_that_are_given() -> None:
    check(5, 4, extra=(*caches(), np.array([[2, 3, 4, 5, 6]], np.int64)), do_rotary=1)
    check(1, 6, past=6, extra=(*caches(), np.array([[2]], np.int64)), do_rotary=1)


def test_a_cache_that_is_longer_than_its_content() -> None:
    check(5, 4, past=12)
    check(1, 6, past=12, extra=caches(), do_rotary=1)
    check(1, 6, 3, past=12)
    check(1, 6, past=12, total=12)
    check(2, 6, past=12, total=12, extra=caches(), do_rotary=1)
