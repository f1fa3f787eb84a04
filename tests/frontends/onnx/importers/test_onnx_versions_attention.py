"""Attention and rotary embeddings where versions of ONNX differ."""

from __future__ import annotations

import numpy as np

from afterglow.testing.cases.case import boolean, f16, f32
from tests.frontends.onnx.one_node import Form, check, each_form, form

Q, K, V = f32(2, 4, 3, 8), f32(2, 4, 5, 8), f32(2, 4, 5, 6)
HEADS = {"q_num_heads": 4, "kv_num_heads": 4}
MERGED = f32(2, 3, 32), f32(2, 5, 32), f32(2, 5, 24)
PAST = f32(2, 4, 2, 8), f32(2, 4, 2, 6)
LENGTHS = np.array([5, 3], np.int64)


@each_form(
    form("Attention", (23, 24), Q, K, V),
    form("Attention", 23, Q, K, V, scale=0.5),
    form("Attention", 23, Q, K, V, is_causal=1),
    form("Attention", 23, Q, f32(2, 2, 5, 8), f32(2, 2, 5, 6)),
    form("Attention", 23, Q, f32(2, 1, 5, 8), f32(2, 1, 5, 6), is_causal=1),
    form("Attention", (23, 24), *MERGED, **HEADS),
    form(
        "Attention", 23, f32(2, 3, 32), f32(2, 5, 16), f32(2, 5, 12), q_num_heads=4, kv_num_heads=2
    ),
    form("Attention", 23, Q, K, V, softcap=1.5),
    form("Attention", 23, f16(1, 2, 3, 4), f16(1, 2, 3, 4), f16(1, 2, 3, 4)),
)
def test_heads(form: Form) -> None:
    check(form)


@each_form(
    form("Attention", 23, Q, K, V, f32(3, 5)),
    form("Attention", 23, Q, K, V, f32(2, 4, 3, 5), is_causal=1),
    form("Attention", (23, 24), Q, K, V, boolean(2, 1, 3, 5)),
    form("Attention", 23, Q, K, V, np.tri(3, 5, 1, bool)),
    form("Attention", 23, Q, K, V, np.zeros((3, 5), bool)),
    form("Attention", 24, Q, K, V, f32(3, 4)),
    form("Attention", 24, Q, K, V, None, None, None, LENGTHS),
    form("Attention", 24, Q, K, V, None, None, None, LENGTHS, is_causal=1),
    form("Attention", 25, Q, K, V, left_window_size=1, right_window_size=1),
    form("Attention", 25, Q, K, V, left_window_size=1, is_causal=1),
)
def test_masks(form: Form) -> None:
    check(form)


@each_form(
    form("Attention", (23, 24), Q, K, V, None, *PAST, outputs=3),
    form("Attention", 23, Q, K, V, f32(3, 7), *PAST, outputs=3, is_causal=1),
    form("Attention", 23, *MERGED, None, *PAST, **HEADS, outputs=3),
    *(
        form(
            "Attention",
            23,
            Q,
            K,
            V,
            f32(3, 5),
            outputs=(True, False, False, True),
            softcap=2.0,
            qk_matmul_output_mode=mode,
        )
        for mode in range(4)
    ),
)
def test_caches_and_scores(form: Form) -> None:
    check(form)


CACHE = f32(9, 4), f32(9, 4)
POSITIONS = np.array([[0, 1, 2], [4, 5, 6]], np.int64)


@each_form(
    form("RotaryEmbedding", 23, f32(2, 4, 3, 8), *CACHE, POSITIONS),
    form("RotaryEmbedding", 23, f32(2, 4, 3, 8), *CACHE, POSITIONS, interleaved=1),
    form("RotaryEmbedding", 23, f32(2, 3, 32), *CACHE, POSITIONS, num_heads=4),
    form("RotaryEmbedding", 23, f32(2, 4, 3, 8), f32(2, 3, 4), f32(2, 3, 4)),
    form(
        "RotaryEmbedding",
        23,
        f32(2, 4, 3, 8),
        f32(9, 2),
        f32(9, 2),
        POSITIONS,
        rotary_embedding_dim=4,
    ),
)
def test_rotary_embeddings(form: Form) -> None:
    check(form)
