"""Element-wise arithmetic of PyTorch."""

import pytest

torch = pytest.importorskip("torch")

from tests.frontends.torch.agreement import assert_agree  # noqa: E402

SPECIAL = torch.tensor([0.0, -0.0, 1.5, -2.5, 0.5, 3.0, torch.inf, -torch.inf, torch.nan])
WHOLE = torch.tensor([-7, -3, -1, 0, 1, 2, 6, 7])
BYTES = torch.tensor([0, 1, 7, 200, 255], dtype=torch.uint8)


def test_functions_of_floats_hold_for_signed_zeros_infinities_and_nan():
    def compute(x):
        return (
            *(torch.trunc(x), torch.frac(x), torch.round(x), torch.sign(x), torch.signbit(x)),
            *(torch.rsqrt(x), torch.log2(x), torch.log10(x), torch.exp2(x), torch.erfc(x)),
            *(torch.round(x, decimals=1), torch.round(x, decimals=-1), x.square()),
            *(x**2, x**3, x**0.5, x**-0.5, x**-1, x**2.5, 2.0**x),
        )

    assert_agree(compute, SPECIAL)


def test_pairs_of_floats_hold_for_signed_zeros_infinities_and_nan():
    def compute(x, y):
        return (
            *(torch.atan2(x, y), torch.hypot(x, y), torch.logaddexp(x, y), torch.copysign(x, y)),
            *(torch.fmax(x, y), torch.fmin(x, y), torch.maximum(x, y), torch.minimum(x, y)),
            *(torch.fmod(x, y), torch.remainder(x, y), torch.nextafter(x, y)),
            *(torch.div(x, y, rounding_mode="floor"), torch.div(x, y, rounding_mode="trunc")),
            *(torch.heaviside(x, y), torch.clamp(x, y, 1.0 - y), torch.logaddexp2(x, y)),
        )

    assert_agree(compute, SPECIAL[:, None], SPECIAL)


def test_integers_divide_as_the_mode_says_and_wrap_around():
    def compute(x, small):
        y = x.masked_fill(x == 0, 2)
        columns = x[:, None]
        return (
            *(columns / y, torch.div(columns, y, rounding_mode="floor"), columns // 2, columns % y),
            *(torch.div(columns, y, rounding_mode="trunc"), torch.fmod(columns, y), 7 % y),
            *(small + 300, small * small, -small, small - 1, small.sum(), x**3, 2 ** x.abs()),
            *(x << 2, x >> 1, x << 70, small >> 9, x & 6, x | 1, x ^ 5, ~x, ~small),
        )

    assert_agree(compute, WHOLE, BYTES)


def test_types_are_promoted_by_kind_where_an_operand_has_no_axes():
    def compute(flags, small, whole, half, scalar):
        return (
            *(flags + flags, flags * flags, flags + 1, flags * 2.5, flags / 2, flags | flags),
            *(small + scalar, small + 2.5, small + whole[:5], whole + scalar, half + scalar),
            *(
                half + 1,
                half * scalar,
                torch.add(whole, 3, alpha=2),
                torch.sub(half, half, alpha=3),
            ),
            *(torch.rsub(whole, 5), torch.where(flags, whole[:2], 2.5), whole > 1.5, small == 255),
            *(small < scalar, flags > 0, whole.to(torch.bool), torch.true_divide(small, 2)),
            *(torch.addcmul(scalar, scalar, scalar, value=2), whole.logical_and(whole - 1)),
        )

    flags = torch.tensor([True, False])
    scalar = torch.tensor(2.5, dtype=torch.float64)
    assert_agree(compute, flags, BYTES, WHOLE, torch.ones(3, dtype=torch.float16), scalar)
