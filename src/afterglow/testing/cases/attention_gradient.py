"""Cases of afterglow.ops.attention_gradient."""

from __future__ import annotations

import numpy as np

from afterglow.ops.attention_gradient import AttentionGradient
from afterglow.testing.cases.case import Case, bf16, boolean, case, f16, f32, f64
from afterglow.types import Array, TensorType

_ONE_ROW_UNSEEN = np.array([[True, False, True], [False, False, False]])
_INFINITE = np.array([[0, -np.inf, 1], [-np.inf, -np.inf, -np.inf]], np.float32)


def _of_heads(
    q: TensorType,
    k: TensorType,
    mask: TensorType | None = None,
    causal: bool = False,
    given: Array | None = None,
) -> Case:
    """Values as wide as the keys."""
    given_mask = {} if given is None else {4: given}
    masks = () if mask is None else (mask,)
    return case(AttentionGradient(0.5, causal), q, k, k, q, *masks, given=given_mask)


CASES = [
    case(
        AttentionGradient(0.5),
        f32(2, 3, 4, 8),
        f32(2, 3, 5, 8),
        f32(2, 3, 5, 6),
        f32(2, 3, 4, 6),
    ),
    case(
        AttentionGradient(1.0), f32(1, 2, 3, 4), f32(1, 2, 0, 4), f32(1, 2, 0, 5), f32(1, 2, 3, 5)
    ),
    _of_heads(f32(1, 1, 2, 2), f32(1, 1, 2, 2)),
    _of_heads(f32(1, 1, 2, 2), f32(1, 1, 2, 2), f32(2)),
    _of_heads(f32(1, 1, 2, 2), f32(1, 1, 2, 2), causal=True),
    _of_heads(f32(1, 4, 2, 3), f32(1, 2, 4, 3), f32(2, 1), causal=True),
    _of_heads(f32(1, 2, 2, 2), f32(1, 1, 3, 2), boolean(2, 3), given=_ONE_ROW_UNSEEN),
    _of_heads(f32(1, 2, 2, 2), f32(1, 1, 3, 2), f32(2, 3), given=_INFINITE),
    _of_heads(f16(1, 2, 3, 4), f16(1, 2, 3, 4), f16(3, 3)),
    _of_heads(bf16(1, 2, 3, 4), bf16(1, 1, 3, 4), boolean(3)),
    _of_heads(f64(1, 2, 3, 4), f64(1, 2, 3, 4), f64(1, 2, 1, 3)),
    _of_heads(f32(0, 2, 3, 4), f32(0, 2, 3, 4)),
]
