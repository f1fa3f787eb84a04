"""Conversion of f32 to 16-bit floats: text before and after, and the numbers."""

from __future__ import annotations

import numpy as np
import pytest

import afterglow
from afterglow.driver.pipelines import mixing_pipeline
from afterglow.graph import Builder, Function, Module, parse_module, print_module
from afterglow.ops.activation import Gelu, Relu
from afterglow.ops.elementwise import Add
from afterglow.ops.linear import MatMul
from afterglow.ops.movement import Reshape
from afterglow.ops.normalization import LayerNorm
from afterglow.ops.softmax import Softmax
from afterglow.quantization.convert_floats import ConvertFloats
from afterglow.quantization.mixed_precision import MixedPrecision, choose_halves
from afterglow.support.errors import UsageError
from afterglow.types import DType, TensorType
from afterglow.types.dtype import bf16, f16, f32

PRODUCTS = "{transpose_lhs = false, transpose_rhs = false}"
BEFORE = f"""
const @v : f32[2, 2] = [0.5, 0.25, 3.0, 4.0]

const @w : f32[2, 2] = [1.0, 0.5, 2.0, 65504.0]

func @main(%x: f32[1, 2]) {{
  %a = matmul(%x, @w) {PRODUCTS} : f32[1, 2]
  %turned = transpose(%a) {{perm = (1, 0)}} : f32[2, 1]
  %b = matmul(@v, %turned) {PRODUCTS} : f32[2, 1]
  %y = softmax(%b) {{axis = 0}} : f32[2, 1]
  return %y
}}
"""
AFTER = f"""
const @w.f16 : f16[2, 2] = [1.0, 0.5, 2.0, 65504.0]
const @v.f16 : f16[2, 2] = [0.5, 0.25, 3.0, 4.0]
func @main(%x: f32[1, 2]) {{
  %x.f16 = cast(%x) {{dtype = f16, saturate = true, round_mode = up}} : f16[1, 2]
  %a = matmul(%x.f16, @w.f16) {PRODUCTS} : f16[1, 2]
  %turned = transpose(%a) {{perm = (1, 0)}} : f16[2, 1]
  %b = matmul(@v.f16, %turned) {PRODUCTS} : f16[2, 1]
  %b.wide = cast(%b) {{dtype = f32, saturate = true, round_mode = up}} : f32[2, 1]
  %y = softmax(%b.wide) {{axis = 0}} : f32[2, 1]
  return %y
}}
"""


def converted(text: str, **wanted: tuple[str, ...]) -> str:
    module = parse_module(text)
    mixing_pipeline(ConvertFloats(f16, MixedPrecision(**wanted))).run(module)
    return print_module(module)


def test_products_and_moves_between_them_are_in_16_bits() -> None:
    assert converted(BEFORE).strip() == AFTER.strip()


def test_ops_and_nodes_that_a_user_names_stay_in_f32() -> None:
    for kept in ("MatMul", "matmul", "*"):
        assert "f16" not in converted(BEFORE, keep=(kept,))
    text = converted(BEFORE, keep=("b",))
    assert "%a = matmul(%x.f16, @w.f16)" in text
    assert "%turned = transpose(%a.wide)" in text


def test_an_op_that_a_user_allows_is_in_16_bits() -> None:
    text = BEFORE.replace("softmax(%b)", "softmax(%turned)").replace("%y = ", "%z = ")
    text = text.replace("return %y", f"%y = matmul(@v, %z) {PRODUCTS} : f32[2, 1]\n  return %y")
    assert "%z = softmax(%turned.wide) {axis = 0} : f32[2, 1]" in converted(text)
    assert "%z = softmax(%turned) {axis = 0} : f16[2, 1]" in converted(text, allow=("Softmax",))


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        ({"keep": ("c",)}, "no node or op is called 'c'"),
        ({"allow": ("exp",)}, "no op of the model is called 'exp'"),
    ],
)
def test_names_that_fit_nothing_are_an_error(
    wanted: dict[str, tuple[str, ...]], message: str
) -> None:
    with pytest.raises(UsageError) as caught:
        converted(BEFORE, **wanted)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("number", "dtype", "reason"),
    [
        ("1e6", f16, "constant @s has 1e+06, beyond 65504"),
        ("1e-12", f16, "constant @s has 1e-12, which would be zero"),
        ("1e-7", f16, "constant @s has numbers around 1e-07, too small for f16"),
        ("1e6", bf16, None),
        ("1e-12", bf16, None),
        ("inf", f16, None),
    ],
)
def test_constants_that_do_not_fit_keep_their_node_in_f32(
    number: str, dtype: DType, reason: str | None
) -> None:
    module = parse_module(f"""
        const @s : f32[1] = [{number}]

        const @w : f32[2, 2] = [1.0, 1e-9, 2.0, 3.0]

        func @main(%x: f32[1, 2]) {{
          %a = add(%x, @s) : f32[1, 2]
          %b = matmul(%a, @w) {PRODUCTS} : f32[1, 2]
          return %b
        }}
    """)
    found = choose_halves(module.main, dtype, MixedPrecision())
    assert [node.name for node in found.nodes if node.op == MatMul()] == ["b"]
    assert [found.kept.get(node) for node in module.main.nodes] == [reason, None]


def test_squares_and_what_follows_the_last_product_stay_in_f32() -> None:
    module = parse_module(f"""
        const @w : f32[2, 2] = [1.0, 0.5, 2.0, 3.0]

        func @main(%x: f32[1, 2]) {{
          %a = matmul(%x, @w) {PRODUCTS} : f32[1, 2]
          %square = mul(%a, %a) : f32[1, 2]
          %sum = add(%square, %a) : f32[1, 2]
          %b = matmul(%sum, @w) {PRODUCTS} : f32[1, 2]
          %y = relu(%b) : f32[1, 2]
          return %y
        }}
    """)
    found = choose_halves(module.main, f16, MixedPrecision())
    assert [(node.name, why) for node, why in found.kept.items()] == [
        ("square", "mul needs the range or the precision of f32"),
        ("y", "no product follows"),
    ]


def test_sums_that_only_norms_read_stay_in_f32() -> None:
    text = f"""
const @w : f32[2, 2] = [1.0, 0.5, 2.0, 3.0]

func @main(%x: f32[1, 2]) {{
  %a = matmul(%x, @w) {PRODUCTS} : f32[1, 2]
  %sum = add(%a, %x) : f32[1, 2]
  %soft = softmax(%sum) {{axis = 1}} : f32[1, 2]
  %y = matmul(%soft, @w) {PRODUCTS} : f32[1, 2]
  return %y
}}
"""
    lines = converted(text).splitlines()
    assert "  %sum = add(%a.wide, %x) : f32[1, 2]" in lines
    assert any(line.startswith("  %a.wide = cast(%a) {dtype = f32") for line in lines)


def test_values_that_were_too_large_when_observed_stay_in_f32() -> None:
    module = parse_module(BEFORE)
    wanted = MixedPrecision(reaches={"a": 7e4, "b": 60000.0})
    found = choose_halves(module.main, f16, wanted)
    kept = {node.name: reason for node, reason in found.kept.items()}
    assert kept["a"] == kept["turned"] == "%a reaches 7e+04, beyond 65504"
    assert [node.name for node in found.nodes] == ["b"]
    assert "a" not in {n.name for n in choose_halves(module.main, bf16, wanted).kept}


def block() -> Module:
    """A block of a transformer, without its attention."""
    rng = np.random.default_rng(0)
    module = Module()
    function = Function("main", module)
    b = Builder(function)

    def number(*shape: int) -> object:
        return b.constant(rng.standard_normal(shape).astype(np.float32) / shape[-1] ** 0.5)

    x = function.input("x", TensorType(f32, (2, 5, 32)))
    hidden = b.emit(Gelu(), b.emit(Add(), b.emit(MatMul(), x, number(32, 64)), number(64)))
    sum = b.emit(Add(), x, b.emit(MatMul(), hidden, number(64, 32)))
    normed = b.emit(LayerNorm(), sum, number(32), number(32))
    rows = b.emit(Relu(), b.emit(Reshape((10, 32)), normed))
    function.output("y", b.emit(Softmax(), b.emit(MatMul(), rows, number(32, 7))))
    return module


@pytest.mark.parametrize(("precision", "error"), [("float16", 1e-3), ("bfloat16", 1e-2)])
def test_machine_code_and_interpreter_agree(precision: str, error: float) -> None:
    x = np.random.default_rng(1).standard_normal((2, 5, 32)).astype(np.float32)
    wanted = afterglow.compile(block(), backend="interpreter", cache=False)(x)
    meant, made = (
        afterglow.compile(block(), precision=precision, backend=backend, cache=False)(x)
        for backend in ("interpreter", "cpu")
    )
    assert meant.dtype == made.dtype == np.float32
    np.testing.assert_allclose(made, meant, atol=error)
    np.testing.assert_allclose(made, wanted, atol=3 * error)
    assert np.abs(made - wanted).max() > 0
