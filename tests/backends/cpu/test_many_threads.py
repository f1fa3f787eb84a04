"""A model computed by 1 to 16 threads, with kernels of every algorithm: the bits are the same."""

from __future__ import annotations

import numpy as np
import pytest

import afterglow
from afterglow.driver.options import Options
from afterglow.driver.stages import Stages
from afterglow.graph import Builder, Function, Value
from afterglow.instr import print_program
from afterglow.ops.activation import Relu
from afterglow.ops.convolution import Conv
from afterglow.ops.linear import MatMul
from afterglow.ops.movement import Concat
from afterglow.ops.softmax import Softmax
from afterglow.types import Array, TensorType
from afterglow.types.dtype import f32

THREADS = (1, 2, 3, 5, 8, 16)
RUNS = 4


def random(*shape: int) -> Array:
    rng = np.random.default_rng(sum(shape))
    return (rng.standard_normal(shape) / np.sqrt(shape[-1])).astype(np.float32)


def convolutions() -> Function:
    """Layers of 14 x 14 pixels: by Strassen, by places of Winograd's tiles, then directly."""
    function = Function("main")
    x = function.input("x", TensorType(f32, (1, 14, 14, 256)))
    b = Builder(function)
    for results, size, stride in ((256, 1, 1), (64, 3, 1), (128, 3, 1), (96, 3, 2)):
        weight = b.constant(random(results, size, size, x.type.shape[-1]))
        pads = (size // 2,) * 4
        x = b.emit(Relu(), b.emit(Conv((stride, stride), pads, (1, 1)), x, weight))
    function.output("y", x)
    return function


def products() -> Function:
    """Products of 128 rows, and of one."""
    function = Function("main")
    x = function.input("x", TensorType(f32, (128, 512)))
    b = Builder(function)
    wide = b.emit(Softmax(), b.emit(MatMul(), x, b.constant(random(512, 512))))
    function.output("y", wide)
    row = function.input("row", TensorType(f32, (1, 1024)))
    function.output("z", b.emit(MatMul(), row, b.constant(random(1024, 512))))
    return function


def branches() -> Function:
    """Four branches of one to three convolutions, whose results are channels of one tensor."""
    function = Function("main")
    x = function.input("x", TensorType(f32, (1, 28, 28, 64)))
    b = Builder(function)

    def conv(value: Value, results: int, size: int) -> Value:
        weight = b.constant(random(results, size, size, value.type.shape[-1]))
        return b.emit(Relu(), b.emit(Conv((1, 1), (size // 2,) * 4, (1, 1)), value, weight))

    wide = conv(conv(x, 256, 1), 64, 1)  # where the peak is
    joined = [
        conv(wide, 32, 1),
        conv(conv(wide, 24, 1), 32, 3),
        conv(conv(conv(wide, 16, 1), 24, 3), 24, 3),
        conv(wide, 8, 1),
    ]
    function.output("y", b.emit(Concat(axis=3), *joined))
    return function


@pytest.mark.parametrize("made", [convolutions, products, branches])
def test_results_have_the_same_bits_on_any_number_of_threads(made) -> None:
    model = afterglow.compile(made().module, cache=False, threads=1)
    inputs = [random(*info.shape) for info in model.inputs]
    expected = model.run(None, dict(zip((i.name for i in model.inputs), inputs, strict=True)))
    for threads in THREADS[1:]:
        many = afterglow.compile(made().module, cache=False, threads=threads)
        names = [info.name for info in many.inputs]
        for _ in range(RUNS):
            found = many.run(None, dict(zip(names, inputs, strict=True)))
            for one, other in zip(expected, found, strict=True):
                np.testing.assert_array_equal(one, other)


def test_branches_run_side_by_side() -> None:
    steps = afterglow.compile(branches().module, cache=False).compiled.executable.steps()
    assert max(step.kernel.count("conv") for step in steps) == 4


def test_the_net_goes_by_several_algorithms() -> None:
    stages = Stages(Options(target="x86-64-v4"))  # for which this machine need not be one
    program, _ = stages.plan(stages.lower(stages.optimise(convolutions().module)))
    text = print_program(program)
    assert all(name in text for name in ("strassen", "winograd", "direct"))
