"""How many bits the integers of each storage point have."""

from __future__ import annotations

from afterglow.graph import parse_module
from afterglow.quantization.config import QuantizationConfig
from afterglow.quantization.points import find_points
from afterglow.quantization.widths import point_types

CONV = "{strides = (1,), pads = (0, 0), dilations = (1,), groups = 1}"
TEXT = f"""const @w : f32[2, 1, 2] = [1, 2, 3, 4]
func @main(%x: f32[1, 4, 2]) {{
%a = conv(%x, @w) {CONV} : f32[1, 4, 2]
%s = sigmoid(%a) : f32[1, 4, 2]
%r = reshape(%s) {{shape = (1, 4, 2)}} : f32[1, 4, 2]
%b = conv(%r, @w) {CONV} : f32[1, 4, 2]
%c = relu(%b) : f32[1, 4, 2]
%y = conv(%c, @w) {CONV} : f32[1, 4, 2]
return %y as "y"
}}"""


def types(text: str = TEXT, integer_only: bool = False, **config: object) -> dict[str, str]:
    found = find_points(parse_module(text).main, integer_only=integer_only)
    sources = {value: found.parameters_from(value) for value in found.readers}
    chosen = QuantizationConfig(integer_only=integer_only, **config)  # type: ignore[arg-type]
    return {v.name: str(t) for v, t in point_types(found, sources, chosen).items()}


def test_a_layer_that_asks_for_16_bits_reads_them_and_so_does_what_shares_the_scale() -> None:
    assert types(int16=["b"]) == {"x": "u8", "s": "i16", "r": "i16", "c": "u8"}


def test_all_have_16_bits_if_activations_do() -> None:
    assert set(types(activations="int16").values()) == {"i16"}


def test_of_integers_alone_functions_read_as_many_bits_as_they_compute() -> None:
    assert types(integer_only=True)["a"] == "u8"
    found = types(integer_only=True, int16=["b"])
    assert found == {"x": "u8", "a": "i16", "s": "i16", "r": "i16", "c": "u8"}


def test_of_integers_alone_attention_reads_bytes() -> None:
    heads = "f32[1, 1, 4, 2]"
    text = f"""const @w : f32[2, 2] = [1, 2, 3, 4]
func @main(%x: {heads}) {{
%a = attention(%x, %x, %x) {{scale = 1, causal = false}} : {heads}
%y = matmul(%a, @w) {{transpose_lhs = false, transpose_rhs = false}} : {heads}
return %y as "y"
}}"""
    assert types(text, integer_only=True, activations="int16") == {"x": "u8", "a": "i16"}
