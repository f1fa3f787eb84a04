"""Scales and shifts become part of weights."""

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import DTypeLike

from afterglow.graph import Builder, Function, run_function, verify_module
from afterglow.ops.convolution import Conv, ConvTranspose
from afterglow.ops.elementwise import Add, Div, Mul, Sub
from afterglow.ops.normalization import BatchNorm
from afterglow.transforms.fold_affine import FOLD_AFFINE
from afterglow.types import TensorType
from afterglow.types.dtype import f32
from afterglow.types.later import ScaledArray
from tests.transforms.rewriting import assert_same_meaning, check_declines, check_rewrites

CONV = "{strides = (1,), pads = (0, 0), dilations = (1,), groups = 1}"
PADDED = "{strides = (1,), pads = (1, 1), dilations = (1,), groups = 1}"


def test_a_normalization_after_a_convolution_goes() -> None:
    check_rewrites(
        FOLD_AFFINE,
        before=f"""
            const @w : f32[2, 1, 2] = [1, 2, 3, 4]
            const @b : f32[2] = [1, 1]
            const @scale : f32[2] = [2, 3]
            const @bias : f32[2] = [1, 2]
            const @mean : f32[2] = [1, 3]
            const @variance : f32[2] = [4, 1]
            func @main(%x: f32[1, 3, 2]) {{
              %c = conv(%x, @w, @b) {CONV} : f32[1, 3, 2]
              %y = batch_norm(%c, @scale, @bias, @mean, @variance) \
{{epsilon = 0.0, axis = 2}} : f32[1, 3, 2]
              return %y
            }}
        """,
        after=f"""
            const @b_1 : f32[2] = [1.0, -4.0]
            const @w_1 : f32[2, 1, 2] = [1.0, 2.0, 9.0, 12.0]
            func @main(%x: f32[1, 3, 2]) {{
              %y = conv(%x, @w_1, @b_1) {CONV} : f32[1, 3, 2]
              return %y
            }}
        """,
    )


def test_a_chain_of_constants_after_a_convolution_goes() -> None:
    check_rewrites(
        FOLD_AFFINE,
        before=f"""
            const @w : f32[2, 1, 1] = [1, 2]
            const @c : f32[2] = [1, 2]
            const @d : f32[1, 1, 2] = [4, 8]
            const @e : f32[] = [3]
            func @main(%x: f32[1, 3, 1]) {{
              %p = conv(%x, @w) {PADDED} : f32[1, 5, 2]
              %q = mul(%p, @c) : f32[1, 5, 2]
              %r = div(%q, @d) : f32[1, 5, 2]
              %s = sub(%r, @e) : f32[1, 5, 2]
              %t = relu(%s) : f32[1, 5, 2]
              return %t
            }}
        """,
        after=f"""
            const @w_1_1 : f32[2, 1, 1] = [0.25, 0.5]
            const @r.bias : f32[2] = [-3.0, -3.0]
            func @main(%x: f32[1, 3, 1]) {{
              %s = conv(%x, @w_1_1, @r.bias) {PADDED} : f32[1, 5, 2]
              %t = relu(%s) : f32[1, 5, 2]
              return %t
            }}
        """,
    )


@pytest.mark.parametrize("pads", ["0, 0", "2, 2"])
def test_a_shift_alone_keeps_the_weight(pads: str) -> None:
    conv = f"{{strides = (1,), pads = ({pads}), dilations = (1,), groups = 1}}"
    extent = 3 if pads == "0, 0" else 7
    check_rewrites(
        FOLD_AFFINE,
        before=f"""
            const @w : f32[2, 1, 1] = [1.0, 2.0]
            const @c : f32[2] = [1, 2]
            func @main(%x: f32[1, 3, 1]) {{
              %p = conv(%x, @w) {conv} : f32[1, {extent}, 2]
              %q = add(%p, @c) : f32[1, {extent}, 2]
              return %q
            }}
        """,
        after=f"""
            const @w : f32[2, 1, 1] = [1.0, 2.0]
            const @p.bias : f32[2] = [1.0, 2.0]
            func @main(%x: f32[1, 3, 1]) {{
              %q = conv(%x, @w, @p.bias) {conv} : f32[1, {extent}, 2]
              return %q
            }}
        """,
    )


def test_a_scale_and_a_shift_before_a_convolution_go() -> None:
    check_rewrites(
        FOLD_AFFINE,
        before=f"""
            const @w : f32[1, 2, 2] = [1, 2, 3, 4]
            const @scale : f32[2] = [2, 3]
            const @shift : f32[2] = [1, -1]
            func @main(%x: f32[1, 3, 2]) {{
              %p = mul(%x, @scale) : f32[1, 3, 2]
              %q = add(%p, @shift) : f32[1, 3, 2]
              %r = conv(%q, @w) {CONV} : f32[1, 2, 1]
              return %r
            }}
        """,
        after=f"""
            const @r.bias_1 : f32[1] = [-2.0]
            const @w_1 : f32[1, 2, 2] = [2.0, 6.0, 6.0, 12.0]
            func @main(%x: f32[1, 3, 2]) {{
              %r = conv(%x, @w_1, @r.bias_1) {CONV} : f32[1, 2, 1]
              return %r
            }}
        """,
    )


def test_a_scale_of_a_product_goes_into_its_weight() -> None:
    check_rewrites(
        FOLD_AFFINE,
        before="""
            const @w : f32[2, 2] = [1, 2, 3, 4]
            const @v : f32[2, 2] = [1, 2, 3, 4]
            const @c : f32[2] = [1, 2]
            const @s : f32[] = [2]
            func @main(%x: f32[3, 2]) {
              %p = matmul(%x, @w) {transpose_lhs = false, transpose_rhs = false} : f32[3, 2]
              %q = mul(%p, @c) : f32[3, 2]
              %r = matmul(%q, @v) {transpose_lhs = false, transpose_rhs = true} : f32[3, 2]
              %t = add(%r, @c) : f32[3, 2]
              %u = div(%t, @s) : f32[3, 2]
              return %u
            }
        """,
        after="""
            const @w_1 : f32[2, 2] = [1.0, 4.0, 3.0, 8.0]
            const @v_1 : f32[2, 2] = [0.5, 1.0, 1.5, 2.0]
            const @u.bias : f32[2] = [0.5, 1.0]
            func @main(%x: f32[3, 2]) {
              %q = matmul(%x, @w_1) {transpose_lhs = false, transpose_rhs = false} : f32[3, 2]
              %u_1 = matmul(%q, @v_1) {transpose_lhs = false, transpose_rhs = true} : f32[3, 2]
              %u = add(%u_1, @u.bias) : f32[3, 2]
              return %u
            }
        """,
    )


@pytest.mark.parametrize(
    ("transposed", "weight"),
    [("false", "2.0, 4.0, 9.0, 12.0"), ("true", "2.0, 6.0, 6.0, 12.0")],
)
def test_a_scale_before_a_product_goes_into_its_weight(transposed: str, weight: str) -> None:
    flags = f"{{transpose_lhs = false, transpose_rhs = {transposed}}}"
    check_rewrites(
        FOLD_AFFINE,
        before=f"""
            const @w : f32[2, 2] = [1, 2, 3, 4]
            const @c : f32[2] = [2, 3]
            func @main(%x: f32[3, 2]) {{
              %p = mul(%x, @c) : f32[3, 2]
              %q = matmul(%p, @w) {flags} : f32[3, 2]
              return %q
            }}
        """,
        after=f"""
            const @w_1 : f32[2, 2] = [{weight}]
            func @main(%x: f32[3, 2]) {{
              %q = matmul(%x, @w_1) {flags} : f32[3, 2]
              return %q
            }}
        """,
    )


def test_a_normalization_elsewhere_is_a_product_and_a_sum() -> None:
    check_rewrites(
        FOLD_AFFINE,
        before="""
            const @scale : f32[2] = [2, 3]
            const @bias : f32[2] = [1, 2]
            const @mean : f32[2] = [1, 3]
            const @variance : f32[2] = [4, 1]
            func @main(%x: f32[1, 2, 3, 3]) {
              %y = batch_norm(%x, @scale, @bias, @mean, @variance) \
{epsilon = 0.0, axis = 1} : f32[1, 2, 3, 3]
              return %y
            }
        """,
        after="""
            const @y.scale : f32[2, 1, 1] = [1.0, 3.0]
            const @y.shift : f32[2, 1, 1] = [0.0, -7.0]
            func @main(%x: f32[1, 2, 3, 3]) {
              %y_1 = mul(%x, @y.scale) : f32[1, 2, 3, 3]
              %y = add(%y_1, @y.shift) : f32[1, 2, 3, 3]
              return %y
            }
        """,
    )


LEFT_ALONE = {
    "the product has other users": """
        %p = conv(%x, @w) {CONV} : f32[1, 3, 2]
        %q = mul(%p, @c) : f32[1, 3, 2]
        %r = add(%p, %q) : f32[1, 3, 2]
    """,
    "the weight has other users": """
        %p = conv(%x, @w) {CONV} : f32[1, 3, 2]
        %q = mul(%p, @c) : f32[1, 3, 2]
        %s = conv(%x, @w) {CONV} : f32[1, 3, 2]
        %r = add(%s, %q) : f32[1, 3, 2]
    """,
    "the weight is no constant": """
        %p = conv(%x, %v) {CONV} : f32[1, 3, 2]
        %r = mul(%p, @c) : f32[1, 3, 2]
    """,
    "the bias is no constant": """
        %p = conv(%x, @w, %b) {CONV} : f32[1, 3, 2]
        %r = mul(%p, @c) : f32[1, 3, 2]
    """,
    "the factor is no constant": """
        %p = conv(%x, @w) {CONV} : f32[1, 3, 2]
        %r = mul(%p, %b) : f32[1, 3, 2]
    """,
    "the factor runs along another axis": """
        %p = conv(%x, @w) {CONV} : f32[1, 3, 2]
        %r = mul(%p, @rows) : f32[1, 3, 2]
    """,
    "a shift is padded": """
        %p = add(%x, @c) : f32[1, 3, 2]
        %r = conv(%p, @w) {PADDED} : f32[1, 5, 2]
    """,
    "the factor overflows": """
        %p = conv(%x, @large) {CONV} : f32[1, 3, 2]
        %r = mul(%p, @large.c) : f32[1, 3, 2]
    """,
    "the divisor is zero": """
        %p = conv(%x, @w) {CONV} : f32[1, 3, 2]
        %r = div(%p, @zero) : f32[1, 3, 2]
    """,
    "they are integers": """
        %p = conv(%i, @j) {CONV} : i32[1, 3, 2]
        %r = mul(%p, @k) : i32[1, 3, 2]
    """,
    "a shift precedes a product": """
        %p = add(%x, @c) : f32[1, 3, 2]
        %r = matmul(%p, @m) {transpose_lhs = false, transpose_rhs = false} : f32[1, 3, 2]
    """,
    "a vector precedes a transposed product": """
        %p = mul(%x, @c) : f32[1, 3, 2]
        %r = matmul(%p, @n) {transpose_lhs = true, transpose_rhs = false} : f32[1, 2, 2]
    """,
}


@pytest.mark.parametrize("case", LEFT_ALONE)
def test_left_alone_if(case: str) -> None:
    lines = LEFT_ALONE[case].replace("{CONV}", CONV).replace("{PADDED}", PADDED).strip("\n ")
    constants = "\n".join(
        f"const @{name} : {type} = fill {number}"
        for name, type, number in [
            ("w", "f32[2, 1, 2]", 2),
            ("c", "f32[2]", 3),
            ("rows", "f32[3, 1]", 3),
            ("large", "f32[2, 1, 2]", 1e30),
            ("large.c", "f32[]", 1e30),
            ("zero", "f32[]", 0),
            ("j", "i32[2, 1, 2]", 3),
            ("k", "i32[2]", 3),
            ("m", "f32[2, 2]", 3),
            ("n", "f32[3, 2]", 3),
        ]
    )
    signature = "%x: f32[1, 3, 2], %v: f32[2, 1, 2], %b: f32[2], %i: i32[1, 3, 2]"
    check_declines(FOLD_AFFINE, f"{constants}\nfunc @main({signature}) {{\n{lines}\nreturn %r\n}}")


def random(*shape: int, dtype: DTypeLike = np.float32) -> np.ndarray:
    drawn: np.ndarray = np.random.default_rng(sum(shape)).standard_normal(shape)
    return drawn.astype(dtype)


@pytest.mark.parametrize("op", [Conv, ConvTranspose])
@pytest.mark.parametrize("groups", [1, 2, 4])
@pytest.mark.parametrize("bias", [False, True])
def test_groups_and_transposed_convolutions_keep_their_meaning(
    op: type, groups: int, bias: bool
) -> None:
    function = Function("main")
    b = Builder(function)
    x = function.input("x", TensorType.of(random(2, 5, 6, 4)))
    weight = random(8, 2, 3, 4 // groups) if op is Conv else random(4, 2, 3, 8 // groups)
    y = b.emit(Mul(), x, b.constant(random(4)))
    y = b.emit(Sub(), y, b.constant(random(4)))
    parameters = [b.constant(weight), *([b.constant(random(8))] if bias else [])]
    y = b.emit(op((2, 1), (0, 0, 0, 0), (1, 2), groups), y, *parameters)
    y = b.emit(BatchNorm(1e-3), y, *(b.constant(abs(random(8)) + i) for i in range(4)))
    y = b.emit(Div(), y, b.constant(random(8)))
    function.output("y", b.emit(Add(), y, b.constant(np.array([[[[3]]]], np.float32))))
    reference = function.module.clone()
    assert FOLD_AFFINE.run(function)
    verify_module(function.module)
    assert len(function) == (1 if op is Conv else 3)
    assert_same_meaning(reference.main, function)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float64])
def test_parameters_are_rounded_once(dtype: DTypeLike) -> None:
    function = Function("main")
    b = Builder(function)
    x = function.input("x", TensorType.of(random(1, 3, 2, dtype=dtype)))
    weight, scale = random(2, 1, 2, dtype=dtype), random(2, dtype=dtype)
    y = b.emit(Conv((1,), (0, 0), (1,)), x, b.constant(weight, "w"))
    function.output("y", b.emit(Mul(), y, b.constant(scale)))
    assert FOLD_AFFINE.run(function)
    exact = weight.astype(np.float64) * scale.astype(np.float64).reshape(2, 1, 1)
    folded = function.module.constants["w_1"].data
    assert folded.dtype == dtype
    np.testing.assert_array_equal(folded, exact.astype(dtype))
    run_function(function, [random(1, 3, 2, dtype=dtype)])


def test_a_large_weight_is_scaled_when_somebody_reads_it() -> None:
    f = Function("main")
    b = Builder(f)
    weight = np.linspace(-1, 1, 1 << 15, dtype=np.float32).reshape(128, 1, 256)
    x = f.input("x", TensorType(f32, (1, 3, 256)))
    y = b.emit(Conv((1,), (0, 0), (1,), 1), x, b.constant(weight, "w"))
    f.output("y", b.emit(Mul(), y, b.constant(np.array(0.1, np.float32), "s")))
    FOLD_AFFINE.run(f)
    verify_module(f.module)
    (folded,) = f.constants()
    assert isinstance(folded.content, ScaledArray)
    expected = (weight.astype(np.float64) * np.float32(0.1)).astype(np.float32)
    assert np.array_equal(folded.data, expected)
    assert f.module.clone().constants[folded.name].content is folded.content


def test_a_large_weight_that_would_overflow_is_not_scaled() -> None:
    f = Function("main")
    b = Builder(f)
    weight = np.full((128, 1, 256), 1e30, np.float32)
    x = f.input("x", TensorType(f32, (1, 3, 256)))
    y = b.emit(Conv((1,), (0, 0), (1,), 1), x, b.constant(weight, "w"))
    f.output("y", b.emit(Mul(), y, b.constant(np.array(1e20, np.float32), "s")))
    assert not FOLD_AFFINE.run(f)
