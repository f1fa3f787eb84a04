"""Rounding of weights by what layers read."""

from __future__ import annotations

import numpy as np
import pytest

from afterglow.ops.linear import MatMul
from afterglow.quantization.layers import input_rows, weight_rows
from afterglow.quantization.moments import InputMoments, row_errors
from afterglow.quantization.rounding import Rounding, round_checked
from afterglow.quantization.weights import quantize_groups, quantize_weight
from afterglow.types import Array
from afterglow.types.dtype import i4, i8
from tests.quantization.test_layers import LAYERS, smooth, weights


def moments(op, weight: tuple[int, ...], x: Array, extent: int = 4096) -> InputMoments:
    rows = [input_rows(op, weight, part, 10**6) for part in np.array_split(x, 2)]
    seen = InputMoments(rows[0].shape[0], rows[0].shape[2], extent)
    for part in rows:
        seen.add(part)
    return seen


@pytest.mark.parametrize("dtype", [i8, i4])
@pytest.mark.parametrize("name", LAYERS)
def test_no_row_has_more_error_on_either_half_than_the_nearest_integers(name: str, dtype) -> None:
    op, shape, weight = LAYERS[name]
    data, seen = weights(weight), moments(op, weight, smooth(shape))
    nearest = quantize_weight(data, int(op == MatMul()), dtype)
    found = round_checked(op, data, nearest, seen)
    assert found.stored.dtype == nearest.stored.dtype
    for half in (0, 1):
        before, after = (
            row_errors(weight_rows(op, x.dequantized() - data), seen.half(half)).sum()
            for x in (nearest, found)
        )
        assert after < before


def test_blocks_of_the_depth_are_rounded_with_their_groups_of_scales() -> None:
    op, weight = MatMul(), (300, 10)
    data, seen = weights(weight), moments(op, weight, smooth((10, 80, 300)), 128)
    nearest = quantize_groups(data, 0, 32)
    found = round_checked(op, data, nearest, seen)
    before, after = (
        row_errors(weight_rows(op, x.dequantized() - data), seen.whole()).sum()
        for x in (nearest, found)
    )
    assert after < 0.9 * before


def test_rows_that_rounding_does_not_help_keep_the_nearest_integers() -> None:
    rng = np.random.default_rng(0)
    halves = (rng.normal(size=(1, 4, 96)) for _ in range(3))  # few, and none like another
    seen = InputMoments(1, 96)
    for half in halves:
        seen.add(half.astype(np.float32))
    data = weights((40, 96))
    nearest = quantize_weight(data, 0, i4)
    found = round_checked(MatMul(transpose_rhs=True), data, nearest, seen)
    same = (found.stored == nearest.stored).all(1)
    assert 0 < same.sum() < 40


def test_layers_are_known_by_name_and_what_was_rounded_is_remembered() -> None:
    op, x, weight = LAYERS["product"]
    data, asked = weights(weight), []

    def collect() -> dict[str, InputMoments]:
        asked.append(1)
        return {"y": moments(op, weight, smooth(x)), "other": InputMoments(1, 7)}

    rounding, nearest = Rounding(collect), quantize_weight(data, 1, i4)
    found = rounding.rounded(["z", "y"], op, data, nearest)
    assert (found.stored != nearest.stored).any()
    rounding.release()
    assert rounding.rounded(["z", "y"], op, data, nearest) is found
    assert rounding.rounded(["other"], op, data, nearest) is nearest
    assert rounding.rounded(["z"], op, data, nearest) is nearest
    assert len(asked) == 2


def test_what_a_layer_reads_may_be_divided_since() -> None:
    op, x, weight = LAYERS["grouped"]
    factors = np.geomspace(0.25, 8, 6)
    data = weights(weight) * factors.reshape(3, 1, 1, 1, 2).repeat(3, 1).reshape(9, 1, 1, 2)
    data = data.astype(np.float32)
    nearest = quantize_weight(data, 0, i4)
    divided = {"c": moments(op, weight, (smooth(x) / factors).astype(np.float32))}
    plain = {"c": moments(op, weight, smooth(x))}
    expected = Rounding(lambda: divided).rounded(["c"], op, data, nearest)
    found = Rounding(lambda: plain).rounded(["c"], op, data, nearest, divided=factors)
    assert (found.stored != expected.stored).mean() < 0.02


def test_a_mean_error_that_a_bias_takes_back_does_not_count() -> None:
    op, x, weight = LAYERS["one axis"]
    data, seen = weights(weight), moments(op, weight, smooth(x) + 5)
    nearest = quantize_weight(data, 0, i4)
    rounding = Rounding(lambda: {"c": seen})
    assert rounding.mean_error("c", op, data) is None
    errors = []
    for centred in (False, True):
        found = rounding.rounded(["c"], op, data, nearest, centred=centred)
        difference = found.dequantized() - data
        errors.append(row_errors(weight_rows(op, difference), seen.whole(centred=True)).sum())
    assert errors[1] < 0.9 * errors[0]
    mean = rounding.mean_error("c", op, difference)
    results = op.evaluate(smooth(x) + 5, difference)
    np.testing.assert_allclose(mean, results.mean((0, 1)), rtol=0.05, atol=0.02)
