"""Every pass takes time in proportion to the program."""

import importlib
import inspect
import pkgutil
from collections.abc import Callable
from functools import partial

import numpy as np
import pytest

from afterglow import transforms
from afterglow.graph import Builder, Function, Value, verify_module
from afterglow.ops.activation import Relu
from afterglow.ops.conversion import Cast
from afterglow.ops.elementwise import Add, Max, Mul, Sub
from afterglow.ops.functions import Exp
from afterglow.ops.movement import Reshape, Transpose
from afterglow.passes import Pass, RewritePass
from afterglow.types import TensorType
from afterglow.types.dtype import f16, f32, f64
from tests.effort import is_linear

SIZE = 2_000
"""Nodes of the smaller of two programs."""


def all_passes() -> list[Pass]:
    """Each pass of `afterglow.transforms` that needs no arguments, in order of its module."""
    found: dict[str, Pass] = {}
    for info in pkgutil.iter_modules(transforms.__path__, "afterglow.transforms."):
        for item in vars(importlib.import_module(info.name)).values():
            if inspect.isclass(item) and item is not RewritePass and issubclass(item, Pass):
                item = item() if item.name and not inspect.signature(item).parameters else None
            if isinstance(item, Pass):
                found[item.name] = item
    return list(found.values())


def chain(size: int) -> Function:
    """Sums, products, casts, transposes and rectifiers, one after the other."""
    function = Function("main")
    b = Builder(function)
    value: Value = function.input("x", TensorType(f32, (2, 3)))
    rng = np.random.default_rng(0)
    steps: list[Callable[[Value], Value]] = [
        lambda x: b.emit(Add(), x, b.constant(rng.standard_normal(1).astype(np.float32))),
        lambda x: b.emit(Mul(), b.constant(rng.standard_normal(()).astype(np.float32)), x),
        lambda x: b.emit(Sub(), x, b.constant(np.ones((), np.float32))),
        lambda x: b.emit(Transpose((1, 0)), x),
        lambda x: b.emit(Relu(), x),
        lambda x: b.emit(Max(), x, b.constant(np.zeros((), np.float32))),
        lambda x: b.emit(Cast(f32), b.emit(Cast(f64), x)),
        lambda x: b.emit(Reshape((3, 2)), x),
        lambda x: b.emit(Transpose((1, 0)), x),
        lambda x: b.emit(Exp(), x),
        lambda x: b.emit(Cast(f32), b.emit(Cast(f16), x)),
    ]
    while len(function) < size:
        value = steps[int(rng.integers(len(steps)))](value)
        if value.type.shape != (2, 3):
            value = b.emit(Reshape((2, 3)), value)
    function.output("y", value)
    return function


def star(size: int) -> Function:
    """One input and one constant that very many nodes take, in a tree of sums."""
    function = Function("main")
    b = Builder(function)
    x = function.input("x", TensorType(f32, (2,)))
    one = b.constant(np.ones((), np.float32))
    leaves = [b.emit(Add(), one, b.emit(Exp(), x)) for _ in range(size // 3)]
    while len(leaves) > 1:
        pairs = zip(leaves[::2], leaves[1::2], strict=False)
        leaves = [b.emit(Add(), left, right) for left, right in pairs] + leaves[len(leaves) & ~1 :]
    function.output("y", leaves[0])
    return function


class Programs:
    """Programs to run passes over; one that a pass has left alone does for the next."""

    def __init__(self) -> None:
        self.untouched: dict[tuple[Callable[[int], Function], int], Function] = {}

    def run_over(self, step: Pass, shape: Callable[[int], Function], size: int) -> None:
        if step.run(self.untouched[shape, size]):
            del self.untouched[shape, size]

    def prepare(self, step: Pass, shape: Callable[[int], Function], size: int) -> partial[None]:
        if (shape, size) not in self.untouched:
            self.untouched[shape, size] = shape(size)
        return partial(self.run_over, step, shape, size)


@pytest.fixture(scope="module")
def programs() -> Programs:
    return Programs()


@pytest.mark.parametrize("shape", [chain, star], ids=["chain", "star"])
@pytest.mark.parametrize("step", all_passes(), ids=lambda step: step.name)
def test_time_is_linear(step: Pass, shape: Callable[[int], Function], programs: Programs) -> None:
    assert is_linear(partial(programs.prepare, step, shape), SIZE)


@pytest.mark.parametrize("shape", [chain, star], ids=["chain", "star"])
def test_the_time_of_all_passes_together_is_linear(shape: Callable[[int], Function]) -> None:
    def passes_over(size: int) -> Callable[[], None]:
        function = shape(size)

        def run() -> None:
            for step in all_passes():
                step.run(function)

        made.append(function)
        return run

    made: list[Function] = []
    assert is_linear(passes_over, SIZE)
    verify_module(made[-1].module)
