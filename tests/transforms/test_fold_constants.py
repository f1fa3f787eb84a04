"""What depends on constants only is computed at once."""

import numpy as np
import pytest

from afterglow.graph import Builder, Function, Op, verify_module
from afterglow.ops.elementwise import Add, Mul
from afterglow.ops.functions import Exp
from afterglow.ops.movement import Expand, Reshape, Slice, Transpose
from afterglow.support.errors import UsageError
from afterglow.transforms.fold_constants import FREE_BYTES, FoldConstants
from tests.transforms.rewriting import check_declines, check_rewrites


def test_a_chain_of_constants_is_one_constant() -> None:
    check_rewrites(
        FoldConstants(),
        before="""
            const @c : f32[2] = [1, 2]
            const @d : f32[] = [3]
            func @main(%x: f32[2]) {
              %a = add(@c, @d) : f32[2]
              %b = mul(%a, @d) : f32[2]
              %r = mul(%x, %b) : f32[2]
              return %r
            }
        """,
        after="""
            const @b : f32[2] = [12.0, 15.0]
            func @main(%x: f32[2]) {
              %r = mul(%x, @b) : f32[2]
              return %r
            }
        """,
    )


def test_a_result_that_is_constant_is_returned_so() -> None:
    check_rewrites(
        FoldConstants(),
        before="""
            const @c : i64[2] = [1, 2]
            state @s : i64[2]
            func @main() {
              %a = add(@c, @c) : i64[2]
              %b = mul(%a, @c) : i64[2]
              store %a to @s
              return %a, %b
            }
        """,
        after="""
            const @a : i64[2] = [2, 4]
            const @b : i64[2] = [2, 8]
            state @s : i64[2]
            func @main() {
              store @a to @s
              return @a, @b
            }
        """,
    )


def test_what_depends_on_an_input_stays() -> None:
    check_declines(
        FoldConstants(),
        """
        const @c : f32[2] = [1, 2]
        func @main(%x: f32[2]) {
          %a = add(%x, @c) : f32[2]
          return %a
        }
        """,
    )


def function_of(array: np.ndarray, *ops: Op) -> Function:
    """One op after the other, on a constant."""
    function = Function("main")
    b = Builder(function)
    value = b.constant(array, "c")
    for each in ops:
        value = b.emit(each, value)
    function.output("y", value)
    return function


def only_constant(function: Function) -> np.ndarray:
    (constant,) = function.module.constants.values()
    return constant.data


def test_what_would_grow_much_stays() -> None:
    shape = (FREE_BYTES // 4 + 1,)
    function = function_of(np.ones(1, np.float32), Expand(shape))
    assert not FoldConstants().run(function)
    small = function_of(np.ones(1, np.float32), Expand((FREE_BYTES // 4,)))
    assert FoldConstants().run(small)


def test_views_of_large_constants_copy_nothing() -> None:
    weight = np.ones((1024, 512), np.float32)
    function = function_of(weight, Transpose((1, 0)), Transpose((1, 0)), Reshape((512, 1024)))
    assert FoldConstants().run(function)
    assert len(function) == 0
    assert np.shares_memory(only_constant(function), weight)


def test_a_small_part_does_not_keep_the_whole_alive() -> None:
    weight = np.ones((1024, 512), np.float32)
    function = function_of(weight, Slice((3, 0), (1, 512), (1, 1)))
    assert FoldConstants().run(function)
    assert not np.shares_memory(only_constant(function), weight)


def test_constants_are_forgotten_when_the_last_use_goes() -> None:
    function = Function("main")
    b = Builder(function)
    shared, alone = (b.constant(np.ones(2, np.float32), name) for name in ("shared", "alone"))
    x = function.input("x", shared.type)
    total = b.emit(Add(), b.emit(Add(), shared, alone, name="sum"), x)
    function.output("y", b.emit(Mul(), total, shared))
    assert FoldConstants().run(function)
    assert list(function.module.constants) == ["shared", "sum"]
    verify_module(function.module)


class Failing(Exp):
    """Refuses what it is given."""

    def evaluate(self, x: np.ndarray) -> np.ndarray:
        raise UsageError("no such number")


class OutOfTimeError(Exception):
    """What a signal handler of the caller raises."""


class Interrupted(Exp):
    """Takes so long that a signal comes."""

    def evaluate(self, x: np.ndarray) -> np.ndarray:
        raise OutOfTimeError


class Random(Exp):
    """Gives other numbers each time."""

    pure = False


@pytest.mark.parametrize("kept", [Failing(), Random()], ids=["fails", "is not pure"])
def test_a_node_is_left_for_run_time_if_it(kept: Op) -> None:
    function = function_of(np.ones(2, np.float32), kept)
    assert not FoldConstants().run(function)
    assert len(function) == 1


def test_what_a_signal_handler_raises_passes_through() -> None:
    with pytest.raises(OutOfTimeError):
        FoldConstants().run(function_of(np.ones(2, np.float32), Interrupted()))


def test_quantized_weights_stay_quantized_until_told() -> None:
    text = """
        const @w : i8[2] = [1, 2]
        const @scale : f32[] = [0.5]
        func @main(%x: f32[2]) {
          %v = dequantize_linear(@w, @scale) {axis = 1, dtype = f32, block_size = 0} : f32[2]
          %y = mul(%x, %v) : f32[2]
          return %y
        }
    """
    check_declines(FoldConstants(), text)
    check_rewrites(
        FoldConstants(dequantize=True),
        before=text,
        after="""
            const @v : f32[2] = [0.5, 1.0]
            func @main(%x: f32[2]) {
              %y = mul(%x, @v) : f32[2]
              return %y
            }
        """,
    )
