"""Windows over ranged images: convolutions, transposed ones and pooling."""

from __future__ import annotations

import numpy as np
import pytest

from afterglow.backends.cpu.kernels.conv.geometry import Geometry
from afterglow.backends.cpu.kernels.conv.tiling import ConvPlan
from afterglow.backends.cpu.kernels.conv.winograd.plan import block_of
from afterglow.backends.cpu.micro.rows import Axes
from afterglow.backends.cpu.target import Target
from afterglow.driver.api import compile
from afterglow.driver.options import Options
from afterglow.driver.stages import Stages
from afterglow.graph import Builder, Function, Module
from afterglow.instr import Stack
from afterglow.ops.activation import Relu
from afterglow.ops.convolution import Conv, Convolution, ConvTranspose
from afterglow.ops.elementwise import Add
from afterglow.ops.pooling import AvgPool, LpPool, MaxPool, MaxPoolWithIndices, Pool
from afterglow.testing.ranged_checks import check_ranged
from afterglow.types import TensorType
from afterglow.types.dtype import f32
from afterglow.types.extent import Dim, bind_extent, ranged

N = ranged(Dim("n", 1, 9))
BATCHES = [{"n": n} for n in (1, 2, 3, 5, 8, 9)]
FEW, H, W = ranged(Dim("n", 1, 3)), ranged(Dim("h", 4, 19)), ranged(Dim("w", 4, 37))
PICTURES = [
    {"n": n, "h": h, "w": w}
    for n, h, w in ((1, 4, 4), (2, 5, 6), (3, 10, 13), (1, 19, 16), (2, 7, 21), (1, 19, 37))
]
ONE, TWO, NONE, AROUND = (1, 1), (2, 2), (0,) * 4, (1,) * 4


def convolution(
    x: tuple[int, ...],
    weight: tuple[int, ...],
    strides: tuple[int, ...] = (1, 1),
    pad: int = 0,
    dilations: tuple[int, ...] = (1, 1),
    groups: int = 1,
    *,
    inside: bool = False,
) -> Module:
    """relu(conv(x) + bias + r), for constant weights; `inside` it is of a value in the arena."""
    rng = np.random.default_rng(7)
    module = Module()
    function = Function("main", module)
    b = Builder(function)
    scale = 1 / np.sqrt(np.prod(weight[1:]))
    factors = b.constant((rng.standard_normal(weight) * scale).astype(np.float32), "w")
    bias = b.constant(rng.standard_normal(weight[0]).astype(np.float32), "b")
    op = Conv(strides, (pad,) * 4, dilations, groups)
    source = function.input("x", TensorType(f32, x))
    made = b.emit(op, b.emit(Relu(), source) if inside else source, factors, bias)
    total = b.emit(Add(), made, function.input("r", made.type))
    function.output("o", b.emit(Relu(), total))
    return module


def images_up_to(most: int) -> Module:
    """A convolution of images of so many rows and columns at most."""
    h, w = ranged(Dim("h", 1, most)), ranged(Dim("w", 1, most))
    return convolution((1, h, w, 64), (64, 3, 3, 64), (1, 1), 1)


@pytest.mark.parametrize(
    "module",
    [
        pytest.param(convolution((N, 8, 8, 32), (48, 1, 1, 32)), id="single-pixels"),
        pytest.param(convolution((N, 1, 1, 40), (33, 1, 1, 40)), id="one-pixel-an-image"),
        pytest.param(convolution((N, 2, 3, 40), (32, 1, 1, 40), (2, 2)), id="few-pixels"),
        pytest.param(convolution((N, 9, 9, 8), (24, 3, 3, 8), (2, 2), 1), id="strided"),
        pytest.param(convolution((N, 9, 10, 20), (20, 3, 3, 20), (1, 1), 2, (2, 2)), id="dilated"),
        pytest.param(convolution((N, 7, 7, 16), (32, 3, 3, 8), (1, 1), 1, (1, 1), 2), id="grouped"),
        pytest.param(convolution((N, 9, 9, 16), (2, 3, 3, 16), (1, 1), 1), id="few-results"),
        pytest.param(convolution((N, 12, 13, 20), (20, 3, 3, 1), (2, 2), 1, (1, 1), 20), id="dw"),
    ],
)
def test_a_ranged_number_of_images_is_convolved(module: Module) -> None:
    check_ranged(module, BATCHES)


@pytest.mark.parametrize("channels", [(32, 32), (64, 288)])
def test_winograds_algorithm_shares_panels_or_blocks_as_the_number_of_images_asks(
    channels: tuple[int, int],
) -> None:
    inner, results = channels
    n = ranged(Dim("n", 1, 20))
    module = convolution((n, 10, 9, inner), (results, 3, 3, inner), (1, 1), 1)
    check_ranged(module, [{"n": k} for k in (1, 2, 7, 20)])


def test_blocks_of_winograds_algorithm_are_even_whatever_the_number_of_tiles() -> None:
    n = ranged(Dim("n", 1, 200))
    for count, tiles in ((1, 2), (13, 14), (15, 8), (78, 14), (200, 14)):
        (made, runs, heights) = block_of(n, 14, 14)
        assert bind_extent(made, {"n": count}) == tiles
    assert (runs, heights) == ((), (4, 6, 8, 10, 12, 14))
    assert block_of(78, 14, 14)[0] == 13


@pytest.mark.parametrize("most", [8, 40])
def test_convolutions_of_small_and_large_images_are_right_whatever_the_algorithm(most: int) -> None:
    pictures = ((1, 1), (2, 3), (1, most), (5, 6), (most, 7), (most, most))
    feeds = [{"h": height, "w": width} for height, width in pictures]
    check_ranged(images_up_to(most), feeds, threads=2)


@pytest.mark.parametrize(
    ("target", "most", "sizes"),
    [
        ("x86-64-v3", 8, (2,)),
        ("x86-64-v3", 40, (4,)),
        ("x86-64-v4", 8, (2,)),
        ("x86-64-v4", 40, (2, 4)),
    ],
)
def test_small_and_large_images_go_by_the_algorithm_of_each(
    target: str, most: int, sizes: tuple[int, ...]
) -> None:
    stages = Stages(Options(target=target))
    program, _ = stages.plan(stages.lower(stages.optimise(images_up_to(most))))
    (step,) = (step for step in program.body if isinstance(step, Stack))
    assert step.plan is not None
    assert step.plan.algorithm == "direct-or-winograd"
    assert step.plan.settings["size"] == sizes


@pytest.mark.parametrize(
    ("channels", "weight", "strides", "pad", "dilations", "groups"),
    [
        pytest.param(32, (48, 1, 1, 32), ONE, 0, ONE, 1, id="single-pixels"),
        pytest.param(32, (40, 1, 1, 32), TWO, 0, ONE, 1, id="some-pixels"),
        pytest.param(8, (24, 3, 3, 8), TWO, 1, ONE, 1, id="strided"),
        pytest.param(8, (24, 3, 3, 8), ONE, 0, ONE, 1, id="no-padding"),
        pytest.param(3, (16, 7, 7, 3), TWO, 3, ONE, 1, id="stem"),
        pytest.param(32, (32, 3, 3, 32), ONE, 1, ONE, 1, id="winograd"),
        pytest.param(20, (20, 3, 3, 20), ONE, 2, TWO, 1, id="dilated"),
        pytest.param(16, (32, 3, 3, 8), ONE, 1, ONE, 2, id="grouped"),
        pytest.param(16, (2, 3, 3, 16), ONE, 1, ONE, 1, id="few-results"),
        pytest.param(20, (20, 3, 3, 1), ONE, 1, ONE, 20, id="depthwise"),
        pytest.param(20, (20, 3, 3, 1), TWO, 1, ONE, 20, id="depthwise-strided"),
        pytest.param(20, (20, 7, 7, 1), TWO, 3, ONE, 20, id="depthwise-large"),
    ],
)
def test_images_of_ranged_extents_are_convolved(
    channels: int,
    weight: tuple[int, ...],
    strides: tuple[int, ...],
    pad: int,
    dilations: tuple[int, ...],
    groups: int,
) -> None:
    module = convolution(
        (FEW, H, W, channels), weight, strides, pad, dilations, groups, inside=pad > 0
    )
    check_ranged(module, PICTURES)


def test_tiles_fit_short_lines_in_the_middle_of_their_range() -> None:
    line = ranged(Dim("w", 1, 7))
    geometry = Geometry(1, 129, 128, Axes((line,), (129,)), Axes((387,), (1,)), 0)
    tiles = ConvPlan.of(geometry, Target.of("x86-64-v4"), f32).tiles
    assert tiles.runs[0].rows == 4  # which is the height of the only tile where there are four


@pytest.mark.parametrize("most", [2, 4, 7])
def test_short_lines_are_convolved(most: int) -> None:
    line = ranged(Dim("w", 1, most))
    module = convolution((1, 1, line, 33), (40, 1, 3, 33), (1, 1), 1, inside=True)
    check_ranged(module, [{"w": n} for n in range(1, most + 1)])


def window_op(op: Convolution | Pool, channels: int, weight: tuple[int, ...] = ()) -> Module:
    """One op on an image of ranged extents."""
    module = Module()
    function = Function("main", module)
    b = Builder(function)
    operands = [function.input("x", TensorType(f32, (FEW, H, W, channels)))]
    if weight:
        factors = np.random.default_rng(3).standard_normal(weight).astype(np.float32)
        operands.append(b.constant(factors / 8, "w"))
    for number, result in enumerate(b.emit_node(op, *operands).results):
        function.output(f"o{number}", b.emit(Relu(), result) if number == 0 else result)
    return module


@pytest.mark.parametrize(
    ("op", "weight"),
    [
        (ConvTranspose(TWO, NONE, ONE), (16, 2, 2, 24)),
        (ConvTranspose(TWO, AROUND, ONE, 1, ONE), (16, 3, 3, 24)),
        (ConvTranspose(ONE, AROUND, ONE), (16, 3, 3, 3)),
        (ConvTranspose(TWO, AROUND, ONE, 2), (16, 4, 4, 8)),
    ],
)
def test_images_of_ranged_extents_are_convolved_by_the_transpose(
    op: ConvTranspose, weight: tuple[int, ...]
) -> None:
    check_ranged(window_op(op, 16, weight), PICTURES)


@pytest.mark.parametrize(
    "op",
    [
        MaxPool(TWO, TWO, NONE, ONE),
        MaxPool((3, 3), TWO, AROUND, ONE),
        MaxPool((3, 3), TWO, NONE, ONE, ceil_mode=True),
        MaxPool((2, 2), (3, 3), NONE, ONE, ceil_mode=True),
        MaxPool((3, 3), ONE, (2,) * 4, TWO),
        MaxPool((18, 18), TWO, (9,) * 4, ONE),
        AvgPool((3, 3), TWO, AROUND, ONE),
        AvgPool((3, 3), TWO, AROUND, ONE, count_include_pad=True),
        AvgPool((3, 3), TWO, AROUND, ONE, ceil_mode=True),
        AvgPool((3, 3), TWO, AROUND, ONE, ceil_mode=True, count_include_pad=True),
        LpPool((3, 3), TWO, AROUND, ONE),
        MaxPoolWithIndices((3, 3), TWO, AROUND, ONE),
    ],
)
def test_images_of_ranged_extents_are_pooled(op: Pool) -> None:
    check_ranged(window_op(op, 20), PICTURES)


def test_single_pixels_go_by_strassens_algorithm_where_they_are_many() -> None:
    h, w = ranged(Dim("h", 1, 24)), ranged(Dim("w", 1, 24))
    module = convolution((1, h, w, 256), (256, 1, 1, 256))
    pictures = [{"h": h, "w": w} for h, w in ((1, 1), (3, 5), (9, 10), (23, 24), (24, 24))]
    check_ranged(module, pictures, threads=2)
    program = compile(module, cache=False).compiled.program
    assert program is not None
    (step,) = (step for step in program.body if isinstance(step, Stack))
    assert step.plan is not None
    assert step.plan.algorithm == "direct-or-strassen"
