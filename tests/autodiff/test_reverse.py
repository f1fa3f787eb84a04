"""What reverse mode emits, and what it refuses."""

from __future__ import annotations

import inspect
from dataclasses import dataclass

import numpy as np
import pytest

from afterglow.autodiff import gradients, substituted
from afterglow.graph import (
    Builder,
    Function,
    Op,
    Value,
    parse_function,
    print_function,
    run_function,
    verify_function,
)
from afterglow.ops.coupling import PairwiseCoupling
from afterglow.ops.elementwise import Add, Floor, Mul
from afterglow.ops.functions import Exp, Sin
from afterglow.ops.movement import Expand
from afterglow.ops.search import TopK
from afterglow.support.errors import UnsupportedError
from afterglow.types import TensorType
from afterglow.types.dtype import f32, f64


def test_gradients_are_ordinary_nodes() -> None:
    f = parse_function("""
        func @main(%x: f32[2, 3], %w: f32[3]) {
          %p = mul(%x, %w) : f32[2, 3]
          %y = exp(%p) : f32[2, 3]
          return %y
        }
    """)
    x, w = f.inputs
    dx, dw = gradients(Builder(f), [f.outputs[0].value], [x, w])
    assert dx is not None
    assert dw is not None
    f.output("dx", dx)
    f.output("dw", dw)
    verify_function(f)
    assert print_function(f).strip() == inspect.cleandoc("""
        func @main(%x: f32[2, 3], %w: f32[3]) {
          %p = mul(%x, %w) : f32[2, 3]
          %y = exp(%p) : f32[2, 3]
          %fill = fill() {shape = (2, 3), value = 1.0, dtype = f32} : f32[2, 3]
          %mul = mul(%fill, %y) : f32[2, 3]
          %mul_1 = mul(%mul, %w) : f32[2, 3]
          %mul_2 = mul(%mul, %x) : f32[2, 3]
          %reduce_sum = reduce_sum(%mul_2) {axes = (0,), keepdims = false} : f32[3]
          return %y, %mul_1 as "dx", %reduce_sum as "dw"
        }
    """)


def two() -> tuple[Function, Builder]:
    f = Function("main")
    f.input("x", TensorType(f64, (3,)))
    f.input("z", TensorType(f64, (3,)))
    return f, Builder(f)


X, Z = np.array([0.5, -1.0, 2.0]), np.array([3.0, 0.25, -1.0])


def test_what_several_nodes_read_gets_the_sum() -> None:
    f, b = two()
    x = f.inputs[0]
    y = b.emit(Add(), b.emit(Mul(), x, x), b.emit(Sin(), x))
    (dx,) = gradients(b, [y], [x])
    assert dx is not None
    f.output("dx", dx)
    np.testing.assert_allclose(run_function(f, [X, Z])[0], 2 * X + np.cos(X))


def test_each_variable_is_independent_of_the_others() -> None:
    f, b = two()
    x, _ = f.inputs
    h = b.emit(Exp(), x)
    y = b.emit(Mul(), h, x)
    alone, of_h = gradients(b, [y], [x, h])
    (held,) = gradients(b, [y], [x], fixed=[h])
    (total,) = gradients(b, [y], [x])
    for value in (alone, of_h, held, total):
        assert value is not None
        f.output("", value)
    got = run_function(f, [X, Z])
    for have, want in zip(got, (np.exp(X), X, np.exp(X), np.exp(X) * (1 + X)), strict=True):
        np.testing.assert_allclose(have, want)


def test_seeds_are_the_gradients_of_the_results() -> None:
    f, b = two()
    x, z = f.inputs
    ys = [b.emit(Mul(), x, x), b.emit(Sin(), x)]
    (dx,) = gradients(b, ys, [x], seeds=[z, x])
    assert dx is not None
    f.output("dx", dx)
    np.testing.assert_allclose(run_function(f, [X, Z])[0], 2 * X * Z + X * np.cos(X))


def test_a_result_may_be_a_variable_itself() -> None:
    f, b = two()
    x, z = f.inputs
    assert gradients(b, [x], [x, z], seeds=[z]) == [z, None]


def test_nothing_comes_back_where_nothing_leads() -> None:
    f, b = two()
    x, z = f.inputs
    values, indices = b.emit_all(TopK(2), x)
    assert gradients(b, [b.emit(Floor(), x)], [x]) == [None]
    assert gradients(b, [indices], [x], seeds=[indices]) == [None]
    assert gradients(b, [values], [z]) == [None]


def test_what_is_not_needed_is_not_kept() -> None:
    f, b = two()
    x, z = f.inputs
    y = b.emit(Mul(), x, z)
    before = len(f)
    gradients(b, [y], [x])
    assert len(f) - before == 2, print_function(f)


def test_empty_tensors_have_gradients() -> None:
    f = Function("main")
    x, z = f.input("x", TensorType(f64, (0, 3))), f.input("z", TensorType(f64, (3,)))
    b = Builder(f)
    y = b.emit(Mul(), x, b.emit(Expand((0, 3)), z))
    assert gradients(b, [y], [x, z]) == [None, None]


def test_an_op_without_gradient_is_named() -> None:
    f = Function("main")
    x = f.input("x", TensorType(f32, (2, 3)))
    pairs = f.input("pairs", TensorType(f32, (1, 2, 2)))
    b = Builder(f)
    y = b.emit(PairwiseCoupling(), pairs, name="classes", origins=("SVM_3",))
    with pytest.raises(UnsupportedError) as caught:
        gradients(b, [y], [pairs])
    assert str(caught.value) == inspect.cleandoc("""
        error: pairwise_coupling has no gradient, and node 'SVM_3' needs one
          in function @main, node %classes (SVM_3)
            > %classes = pairwise_coupling(%pairs)
              on the path SVM_3 <- pairs
          help: compute it from ops that have one, or differentiate only what comes after it
    """)
    assert gradients(b, [y], [x]) == [None]


@dataclass(frozen=True)
class Coupled(Op):
    """An op that is declared nowhere."""

    mnemonic, operand_names, required = "coupled", ("pairs",), 1

    def infer(self, pairs: TensorType) -> TensorType:
        return PairwiseCoupling().infer(pairs)

    def lower(self, b: Builder, pairs: Value) -> Value:
        return b.emit(PairwiseCoupling(), pairs)


def test_an_op_whose_lowering_has_no_gradient_is_named_itself() -> None:
    f = Function("main")
    pairs = f.input("pairs", TensorType(f32, (1, 2, 2)))
    b = Builder(f)
    y = b.emit(Coupled(), pairs, name="classes", origins=("SVM_3",))
    with pytest.raises(UnsupportedError) as caught:
        gradients(b, [y], [pairs])
    assert caught.value.what == "coupled has no gradient, and node 'SVM_3' needs one"


def test_a_long_path_to_an_op_without_gradient_is_shortened() -> None:
    f = Function("main")
    b = Builder(f)
    pairs = f.input("pairs", TensorType(f32, (1, 2, 2)))
    value: Value = pairs
    for count in range(5):
        value = b.emit(Exp(), value, name=f"before{count}")
    value = b.emit(PairwiseCoupling(), value, name="classes")
    for count in range(5):
        value = b.emit(Sin(), value, name=f"after{count}")
    with pytest.raises(UnsupportedError) as caught:
        gradients(b, [value], [pairs])
    path = "after4 <- after3 <- after2 <- … <- classes <- … <- before1 <- before0 <- pairs"
    assert caught.value.excerpt[-1] == f"  on the path {path}"


def test_values_are_computed_again_for_others() -> None:
    f, b = two()
    x, z = f.inputs
    shared = b.emit(Sin(), z)
    y = b.emit(Mul(), b.emit(Exp(), x), shared)
    before = len(f)
    f.output("y", substituted(b, y, {x: z}))
    assert len(f) - before == 2
    np.testing.assert_allclose(run_function(f, [X, Z])[0], np.exp(Z) * np.sin(Z))
    assert substituted(b, y, {y: x}) is x
    assert substituted(b, shared, {x: z}) is shared
