"""Functions of floats that become functions of integers."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

from afterglow.graph import parse_module, print_module
from afterglow.quantization.config import QuantizationConfig
from afterglow.quantization.convert import Convert
from afterglow.quantization.observation import Observation
from afterglow.support.errors import UsageError

MATMUL = "{transpose_lhs = false, transpose_rhs = false}"
FLOAT = f"""
const @w : f32[2, 2] = [63.5, 2.0, -3.0, 127.0]
const @b : f32[2] = [0.5, -1.0]

func @main(%x: f32[3, 2]) {{
  %p = matmul(%x, @w) {MATMUL} : f32[3, 2]
  %y = add(%p, @b) : f32[3, 2]
  return %y as "y"
}}
"""
MINMAX = QuantizationConfig(method="minmax")


def observed(low: float, high: float) -> Mapping[str, Observation]:
    return {"x": Observation.of(np.array([low, high]))}


def test_what_a_product_reads_and_its_weight_and_bias_are_dequantized() -> None:
    module = parse_module(FLOAT)
    assert Convert(observed(-1.75, 62.0), MINMAX).run(module.main)
    text = print_module(module)
    for line in (
        "const @x.scale : f32[] = [0.25]",
        "const @x.zero : u8[] = [7]",
        "const @w.stored : i8[2, 2] = [127, 2, -6, 127]",
        "const @p.bias.stored : i32[2] = [4, -4]",
        "const @p.bias.scale : f32[2] = [0.125, 0.25]",
        "%p = matmul(%x.real, %w) {transpose_lhs = false, transpose_rhs = false} : f32[3, 2]",
        "%y = add(%p, %p.bias) : f32[3, 2]",
    ):
        assert line in text


def test_a_profile_without_any_point_is_refused() -> None:
    module = parse_module(FLOAT)
    with pytest.raises(UsageError, match="the profile has none of the values"):
        Convert({}).run(module.main)


def test_a_bias_that_is_too_large_for_the_sums_widens_the_scale_of_its_weights() -> None:
    module = parse_module(FLOAT.replace("[0.5, -1.0]", "[0.5, 1e12]"))
    Convert(observed(-1.75, 62.0), MINMAX).run(module.main)
    text = print_module(module)
    assert "const @w.stored : i8[2, 2] = [127, 0, -6, 0]" in text
    assert "const @p.bias.stored : i32[2] = [4, 1073741824]" in text


def test_a_layer_that_is_kept_stays_in_floats() -> None:
    module = parse_module(FLOAT)
    assert not Convert(observed(-1.75, 62.0), QuantizationConfig(keep=("p*",))).run(module.main)


def test_a_name_to_keep_that_fits_no_layer_is_refused() -> None:
    module = parse_module(FLOAT)
    with pytest.raises(UsageError) as caught:
        Convert(observed(-1.75, 62.0), QuantizationConfig(keep=("y", "p"))).run(module.main)
    assert caught.value.what == "no layer that would compute in integers is called 'y'"
    assert caught.value.help == "there are p"
    part = Convert(observed(-1.75, 62.0), QuantizationConfig(keep=("y",)), whole=False)
    assert part.run(module.main)  # the layer may be in another part


UNEVEN = f"""
const @v : f32[2, 2] = [1.0, 0.0, 0.0, 64.0]
const @w : f32[2, 2] = [1.0, 1.0, 1.0, -1.0]

func @main(%x: f32[3, 2]) {{
  %a = matmul(%x, @v) {MATMUL} : f32[3, 2]
  %r = relu(%a) : f32[3, 2]
  %y = matmul(%r, @w) {MATMUL} : f32[3, 2]
  return %y as "y"
}}
"""


@pytest.mark.parametrize(("equalise", "scale"), [(True, 32.0), (False, 64.0)])
def test_channels_that_reach_far_are_scaled_down_before_they_are_stored(
    equalise: bool, scale: float
) -> None:
    module = parse_module(UNEVEN)
    x = np.array([[-255.0, 0.0], [255.0, 255.0], [0.0, 127.0]], np.float32)
    seen = {"x": x, "r": np.maximum(x * [1, 64], 0)}
    Convert(
        {name: Observation.of(array) for name, array in seen.items()},
        QuantizationConfig(method="minmax", equalise=equalise),
    ).run(module.main)
    assert f"const @r.scale : f32[] = [{scale}]" in print_module(module)
