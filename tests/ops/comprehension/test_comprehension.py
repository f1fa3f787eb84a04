"""Index notation: its meaning, its lowering and its gradient agree with plain loops."""

from __future__ import annotations

import inspect
from typing import Any

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies

import afterglow as ag
from afterglow.autodiff.differentiate import differentiate
from afterglow.graph import run_function
from afterglow.ops.convolution import Conv
from afterglow.ops.einsum import Einsum
from afterglow.ops.elementwise import Mul
from afterglow.ops.indexing import Gather
from afterglow.ops.linear import MatMul
from afterglow.ops.movement import Concat
from afterglow.ops.pooling import AvgPool, MaxPool
from afterglow.ops.reduction import ReduceMax, ReduceSum
from afterglow.transforms.expand_ops import EXPAND_OPS
from tests.ops.comprehension.loops import by_loops

TEXTS = {
    "product": ("o[i,j] = sum(k) a[i,k] * b[k,j]", (3, 4), (4, 5)),
    "function of a factor": ("o[b,i,j] = sum(k) a[b,i,k] * tanh(w[k,j])", (2, 3, 4), (4, 5)),
    "pairwise distance": ("o[i,j] = sum(k) (a[i,k] - b[j,k])**2", (3, 4), (5, 4)),
    "max-plus": ("o[i,j] = max(k) (a[i,k] + b[k,j])", (3, 4), (4, 5)),
    "bilinear form": ("o[b,o] = sum(k,l) x[b,k] * w[o,k,l] * y[b,l]", (3, 4), (2, 4, 5), (3, 5)),
    "convolution": (
        "o[b,i,j,c] = sum(h,w,d) x[b,2*i+h,j+2*w,d] * k[h,w,d,c]",
        *((2, 5, 7, 3), (2, 3, 3, 2)),
    ),
    "channels first": (
        "o[b,c,i,j] = sum(h,w,d) x[b,d,i+h,j+w+1] * k[c,d,h,w]",
        *((1, 2, 4, 5), (3, 2, 2, 2)),
    ),
    "depthwise": ("o[i,j,c] = sum(h,w) x[i+h,j+w,c] * k[h,w,c] * s[c]", (4, 5, 3), (2, 2, 3), (3,)),
    "groups": ("o[i,g,c] = mean(h,d) x[i+h,g,d] * k[g,h,d,c]", (6, 2, 3), (2, 2, 3, 4)),
    "stencil": ("o[i,j] = x[i,j+1] + x[i+2,j+1] - 4 * x[i+1,j]", (5, 6)),
    "local mean": ("o[i,j] = mean(a in 0:2, b in 0:3) x[i+a,j+b]", (4, 6)),
    "maximum of windows": ("o[n,i,c] = max(a in 0:3) x[n,2*i+a,c]", (2, 8, 4)),
    "mean of windows": ("o[i,j,c] = mean(a in 0:2, b in 0:2) x[i+a,j+2*b,c]", (4, 6, 3)),
    "weighted maximum of windows": ("o[i,j] = max(k) (x[i+k,j] + w[k])", (6, 4), (3,)),
    "a long window": ("o[i] = max(k) (x[i+k] * w[k])", (90,), (70,)),
    "softmax": (
        "m[i] = max(k) x[i,k]; e[i,k] = exp(x[i,k] - m[i]); o[i,j] = e[i,j] / sum(k) e[i,k]",
        (3, 5),
    ),
    "conditions": ("o[i,j] = where(i >= j and not x[i,j] > 0, x[i,j], -i + 0.5)", (4, 4)),
    "diagonal": ("o[i] = x[i,i] + x[2*i,0]", (4, 4)),
    "backwards": ("o[i] = x[3 - i] where i in 0:4", (4,)),
    "shared axis": ("o[i,j] = x[i+j] where i in 0:4", (9,)),
    "scalar": ("o[] = sum(i,j) x[i,j] * x[j,i]", (3, 3)),
    "repeated": ("o[i,j] = x[i] where j in 0:3", (4,)),
    "range from one": ("o[i] = sum(k in 1:4) x[i-1+k] * k", (7,)),
    "repeated sum": ("o[i] = sum(k in 0:3) x[i] + prod(k in 0:2) y[i,k]", (4,), (4, 2)),
    "two reductions": (
        "o[i] = sum(k) a[i,k] + (max(k) b[i,k]) / min(k) c[k]",
        (3, 4),
        (3, 5),
        (2,),
    ),
}


def arrays_of(*shapes: tuple[int, ...]) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    return [rng.uniform(0.5, 2, shape) * rng.choice([1, 1, -1], shape) for shape in shapes]


def module_of(text: str, *shapes: tuple[int, ...], dtype: str = "f64") -> ag.Module:
    op = ag.comprehension(text)
    return op.module(dict(zip(op.operands, shapes, strict=True)), dtype)


@pytest.mark.parametrize("name", TEXTS)
def test_meaning_lowering_and_loops_agree(name: str) -> None:
    text, *shapes = TEXTS[name]
    arrays = arrays_of(*shapes)
    wanted = by_loops(text, *arrays)
    np.testing.assert_allclose(ag.comprehension(text).evaluate(*arrays), wanted, rtol=1e-9)
    module = module_of(text, *shapes)
    EXPAND_OPS.run(module.main)
    np.testing.assert_allclose(run_function(module.main, arrays)[0], wanted, rtol=1e-9)


@pytest.mark.parametrize("name", ["convolution", "groups", "weighted maximum of windows"])
def test_gradients_are_those_of_finite_differences(name: str) -> None:
    text, *shapes = TEXTS[name]
    arrays = arrays_of(*shapes)
    op = ag.comprehension(text)
    function = ag.Function("main")
    b = ag.Builder(function)
    inputs = [
        function.input(name, ag.TensorType.of(array))
        for name, array in zip(op.operands, arrays, strict=True)
    ]
    result = b.emit(op, *inputs)
    axes = tuple(range(result.type.rank))
    total = b.emit(ReduceSum(axes, keepdims=False), b.emit(Mul(), result, result))
    function.output("total", total)
    found = run_function(differentiate(function), arrays)[1:]
    rng = np.random.default_rng(1)
    for i, gradient in enumerate(found):
        direction, step = rng.standard_normal(arrays[i].shape), 1e-6
        ends = [
            (op.evaluate(*arrays[:i], arrays[i] + h * direction, *arrays[i + 1 :]) ** 2).sum()
            for h in (-step, step)
        ]
        np.testing.assert_allclose(
            (gradient * direction).sum(), (ends[1] - ends[0]) / (2 * step), rtol=1e-4
        )


@pytest.mark.parametrize(
    ("name", "wanted", "unwanted"),
    [
        ("product", MatMul, ReduceSum),
        ("bilinear form", MatMul, Einsum),
        ("convolution", Conv, Gather),
        ("groups", Conv, Gather),
        ("depthwise", Conv, Concat),
        ("maximum of windows", MaxPool, ReduceMax),
        ("mean of windows", AvgPool, Gather),
        ("max-plus", ReduceMax, MatMul),
    ],
)
def test_what_has_an_op_becomes_that_op(name: str, wanted: type, unwanted: type) -> None:
    text, *shapes = TEXTS[name]
    module = module_of(text, *shapes)
    EXPAND_OPS.run(module.main)
    ops = [type(node.op) for node in module.main.nodes]
    assert wanted in ops
    assert unwanted not in ops


@pytest.mark.parametrize("name", ["pairwise distance", "stencil"])
def test_what_has_none_is_one_kernel_without_intermediate_results(name: str) -> None:
    text, *shapes = TEXTS[name]
    model = ag.compile(module_of(text, *shapes, dtype="f32"), threads=1)
    assert model.memory.arena_bytes == 0
    assert len([line for line in model.ir().splitlines() if "plan " in line]) == 1
    arrays = [array.astype(np.float32) for array in arrays_of(*shapes)]
    np.testing.assert_allclose(model(*arrays), by_loops(text, *arrays), rtol=1e-5)


INDICES = ("i", "j", "k", "l")


@strategies.composite
def texts(draw: strategies.DrawFn) -> tuple[str, list[tuple[int, ...]]]:
    """A random statement, and shapes of its operands."""
    extents = {name: draw(strategies.integers(1, 3)) for name in INDICES}
    free = draw(strategies.permutations(INDICES))[: draw(strategies.integers(0, 2))]
    bound = [name for name in INDICES if name not in free][: draw(strategies.integers(1, 2))]
    shapes: list[tuple[int, ...]] = []
    accesses = []
    for tensor in draw(strategies.sampled_from(("a", "ab", "abc"))):
        axes = draw(
            strategies.lists(strategies.sampled_from([*free, *bound]), min_size=1, max_size=3)
        )
        parts, shape = [], []
        for name in axes:
            other = draw(strategies.sampled_from([*free, *bound, ""]))
            factor, shift = draw(strategies.integers(1, 2)), draw(strategies.integers(0, 1))
            extra = extents[other] - 1 if other else 0
            parts.append(f"{factor}*{name} + {shift}" + (f" + {other}" if other else ""))
            shape.append(factor * (extents[name] - 1) + shift + extra + 1)
        accesses.append(f"{tensor}[{', '.join(parts)}]")
        shapes.append(tuple(shape))
    joint = draw(strategies.sampled_from((" * ", " + ", " - ")))
    kind = draw(strategies.sampled_from(("sum", "max", "min", "mean", "prod")))
    runs = ", ".join(f"{name} in 0:{extents[name]}" for name in bound)
    given = ", ".join(f"{name} in 0:{extents[name]}" for name in free)
    text = f"o[{', '.join(free)}] = {kind}({runs}) (relu({accesses[0]}){joint}0.5"
    text += "".join(joint + access for access in accesses[1:]) + ")"
    return text + (f" where {given}" if given else ""), shapes


@hypothesis.given(texts())
@hypothesis.settings(max_examples=12, deadline=None, derandomize=True)
def test_random_texts_mean_what_loops_compute(made: tuple[str, list[tuple[int, ...]]]) -> None:
    text, shapes = made
    arrays = arrays_of(*shapes)
    wanted = by_loops(text, *arrays)
    np.testing.assert_allclose(ag.comprehension(text).evaluate(*arrays), wanted, atol=1e-9)
    module = module_of(text, *shapes)
    EXPAND_OPS.run(module.main)
    np.testing.assert_allclose(run_function(module.main, arrays)[0], wanted, atol=1e-9)


def test_attributes_are_numbers_in_the_text() -> None:
    op = ag.comprehension("o[i] = scale * x[stride*i] + low", stride=2, scale=0.5, low=-1)
    assert op.text == "o[i] = 0.5 * x[2*i] + (-1)"
    with pytest.raises(ag.UsageError, match="the text has no attribute 'dilation'"):
        ag.comprehension("o[i] = x[i]", dilation=2)
    with pytest.raises(ag.UsageError, match="attribute 'n' must be a number, got 'a'"):
        ag.comprehension("o[i] = x[n*i]", n="a")  # type: ignore[arg-type]


def test_the_text_of_a_module_parses_back() -> None:
    module = module_of("o[i] = sum(k) a[i, k]; p[i] = o[i] * 2", (2, 3))
    text = ag.print_module(module)
    assert ag.print_module(ag.parse_module(text)) == text


def test_a_type_error_shows_the_node_and_the_place_in_the_text() -> None:
    function = ag.Function("main")
    b = ag.Builder(function)
    x = function.input("x", ag.TensorType.of(np.zeros((2, 3), np.float32)))
    with pytest.raises(ag.CompileError) as caught:
        b.emit(ag.comprehension("o[i] = x[i, i]"), x, name="diagonal")
    assert str(caught.value) == inspect.cleandoc("""
        error: comprehension: index i has extent 2 in x[i, i] and 3 in x[i, i]
          in function @main, node %diagonal
            > %diagonal = comprehension(%x) {text = "o[i] = x[i, i]"}
            o[i] = x[i, i]
                   ^
    """)


def test_shapes_are_given_for_the_operands_of_the_text() -> None:
    with pytest.raises(ag.UsageError, match="shapes must be given for a, b, got a"):
        ag.comprehension("o[i] = a[i] + b[i]").module({"a": (3,)})


@pytest.mark.parametrize(
    ("shape", "dtype", "what"),
    [
        ((-3,), "f32", "x cannot have the shape (-3,)"),
        (("a",), "f32", "x cannot have the shape ('a',)"),
        (3, "f32", "x cannot have the shape 3"),
        ((3,), "float", "there is no element type 'float'"),
    ],
)
def test_a_shape_that_none_can_have_is_refused(shape: Any, dtype: str, what: str) -> None:
    with pytest.raises(ag.UsageError) as caught:
        ag.comprehension("o[i] = x[i]").module({"x": shape}, dtype)
    assert caught.value.what == what


def test_a_batch_may_have_bounds_instead_of_an_extent() -> None:
    op = ag.comprehension("o[n, j] = relu(sum(k) x[n, k] * w[k, j])")
    module = ag.parse_module(
        "dim n : 1..4\n"
        "func @main(%x: f32[n, 3], %w: f32[3, 2]) {\n"
        f'  %o = comprehension(%x, %w) {{text = "{op.text}"}} : f32[n, 2]\n'
        "  return %o\n}"
    )
    model = ag.compile(module, threads=1)
    for n in (1, 3):
        x, w = (array.astype(np.float32) for array in arrays_of((n, 3), (3, 2)))
        np.testing.assert_allclose(model(x, w), np.maximum(x @ w, 0), rtol=1e-5)


def test_windows_that_would_take_much_memory_are_refused() -> None:
    module = module_of("o[i] = max(k) (x[i+k] * w[k])", (200_000,), (1000,))
    with pytest.raises(ag.UnsupportedError) as caught:
        EXPAND_OPS.run(module.main)
    assert caught.value.what == (
        "comprehension: index i + k has 199,001,000 values, which would be gathered"
    )
