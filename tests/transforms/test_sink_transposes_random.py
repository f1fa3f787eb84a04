"""Random programs: sinking transposes keeps their meaning and never moves more bytes."""

import math
from collections.abc import Callable
from random import Random

import numpy as np
import pytest

from afterglow.graph import Builder, Function, Value, verify_module
from afterglow.ops.elementwise import Abs, Add, Mul
from afterglow.ops.functions import Tanh
from afterglow.ops.linear import MatMul
from afterglow.ops.movement import Concat, Expand, Pad, Reshape, Transpose, slice_axis
from afterglow.ops.normalization import LayerNorm
from afterglow.ops.reduction import ReduceMax, ReduceSum
from afterglow.ops.softmax import Softmax
from afterglow.transforms.drop_dead import drop_dead_nodes
from afterglow.transforms.layouts.choice import TRANSPOSE_COST
from afterglow.transforms.layouts.permutations import keeps_order
from afterglow.transforms.merge_equal import MergeEqualNodes
from afterglow.transforms.sink_transposes import BEFORE, SinkTransposes
from afterglow.types import TensorType
from afterglow.types.dtype import f32
from tests.transforms.rewriting import assert_same_meaning


class Generator:
    """Builds a program of a few dozen nodes, one random step after the other."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.arrays = np.random.default_rng(seed)
        self.function = Function("main")
        self.b = Builder(self.function)
        self.values: list[Value] = []
        for index in range(self.random.randint(1, 3)):
            shape = tuple(self.random.choice([1, 2, 3, 4]) for _ in range(4))
            self.values.append(self.function.input(f"x{index}", TensorType(f32, shape)))

    def run(self, steps: int) -> Function:
        kinds: list[Callable[[Value], Value]] = [
            self.transpose, self.transpose, self.transpose, self.reshape, self.reshape,
            self.unary, self.binary, self.scale, self.reduce, self.soften, self.join, self.cut,
            self.pad, self.expand, self.multiply, self.normalize,
        ]  # fmt: skip
        for _ in range(steps):
            x = self.random.choice(self.values[-6:])
            if x.type.rank:
                value = self.random.choice(kinds)(x)
                self.values += [value] if value.type.size <= 2000 else []
        kept = [self.values[-1], *self.random.sample(self.values, 2)]
        for index, value in enumerate(dict.fromkeys(kept)):
            self.function.output(f"y{index}", value)
        return self.function

    def axis(self, x: Value) -> int:
        return self.random.randrange(x.type.rank)

    def constant(self, *shape: int) -> Value:
        return self.b.constant(self.arrays.standard_normal(shape).astype(np.float32))

    def transpose(self, x: Value) -> Value:
        return self.b.emit(Transpose(tuple(self.random.sample(range(x.type.rank), x.type.rank))), x)

    def reshape(self, x: Value) -> Value:
        """Cut axes into halves, join neighbours, and put ones between."""
        pieces = [p for n in x.type.shape for p in ((2, n // 2) if n % 2 == 0 and n else (n,))]
        shape = [1]
        for piece in pieces:
            shape[-1] *= piece
            if self.random.random() < 0.6:
                shape.append(1)
        return self.b.emit(Reshape(tuple(shape)), x)

    def unary(self, x: Value) -> Value:
        return self.b.emit(self.random.choice([Abs(), Tanh()]), x)

    def binary(self, x: Value) -> Value:
        """A sum with any value that broadcasts with it."""
        fitting = [y for y in self.values if _broadcasts(x.type.shape, y.type.shape)]
        return self.b.emit(Add(), x, self.random.choice([x, *fitting]))

    def scale(self, x: Value) -> Value:
        shape = [self.random.choice([1, extent]) for extent in x.type.shape]
        return self.b.emit(Mul(), x, self.constant(*shape[self.random.randint(0, len(shape)) :]))

    def reduce(self, x: Value) -> Value:
        axes = tuple(self.random.sample(range(x.type.rank), self.random.randint(1, x.type.rank)))
        reduction = self.random.choice([ReduceSum, ReduceMax])
        return self.b.emit(reduction(axes, self.random.random() < 0.5), x)

    def soften(self, x: Value) -> Value:
        return self.b.emit(Softmax(self.axis(x)), x)

    def join(self, x: Value) -> Value:
        alike = [y for y in self.values if y.type.shape == x.type.shape]
        return self.b.emit(Concat(self.axis(x)), x, self.random.choice(alike))

    def cut(self, x: Value) -> Value:
        axis = self.axis(x)
        start = self.random.randrange(x.type.shape[axis])
        return self.b.emit(slice_axis(x.type, axis, start, x.type.shape[axis] - start), x)

    def pad(self, x: Value) -> Value:
        counts = [tuple(self.random.randint(0, 1) for _ in x.type.shape) for _ in range(2)]
        return self.b.emit(Pad(*counts), x)

    def expand(self, x: Value) -> Value:
        shape = [3 if extent == 1 else extent for extent in x.type.shape]
        return self.b.emit(Expand((2, *shape)), x)

    def multiply(self, x: Value) -> Value:
        if x.type.rank < 2:
            return x
        columns = self.random.choice([1, 2, 3])
        if self.random.random() < 0.5:
            return self.b.emit(MatMul(), x, self.constant(x.type.shape[-1], columns))
        return self.b.emit(MatMul(transpose_rhs=True), x, self.constant(columns, x.type.shape[-1]))

    def normalize(self, x: Value) -> Value:
        axis = self.axis(x)
        return self.b.emit(LayerNorm(axis, 0.1), x, self.constant(*x.type.shape[axis:]))


def _broadcasts(a: tuple[int, ...], b: tuple[int, ...]) -> bool:
    pairs = zip(reversed(a), reversed(b), strict=False)
    return math.prod(a) <= 200 and all(m == n or 1 in (m, n) for m, n in pairs)


def transpose_cost(function: Function) -> int:
    return sum(
        TRANSPOSE_COST + node.result.type.nbytes
        for node in function.nodes
        if isinstance(node.op, Transpose)
        and not keeps_order(node.op.perm, node.given[0].type.shape)
    )


@pytest.mark.parametrize("seed", range(150))
def test_sinking_keeps_the_meaning_and_never_costs_more(seed: int) -> None:
    function = Generator(seed).run(steps=40)
    drop_dead_nodes(function)
    reference = function.module.clone()
    BEFORE.run(function)
    MergeEqualNodes().run(function)
    before = transpose_cost(function)
    SinkTransposes().run(function)
    verify_module(function.module)
    MergeEqualNodes().run(function)
    assert transpose_cost(function) <= before
    assert_same_meaning(reference.main, function, tolerance=2e-3)
