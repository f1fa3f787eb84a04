"""One of equal things is enough."""

import numpy as np
import pytest

from afterglow.graph import Builder, Function, verify_module
from afterglow.ops.elementwise import Add
from afterglow.transforms.merge_equal import MergeEqualConstants, MergeEqualNodes
from tests.transforms.rewriting import check_declines, check_rewrites


def test_equal_nodes_are_one() -> None:
    check_rewrites(
        MergeEqualNodes(),
        before="""
            func @main(%x: f32[2, 3]) {
              %a = softmax(%x) {axis = 1} : f32[2, 3]
              %b = softmax(%x) {axis = 1} : f32[2, 3]
              %c = exp(%a) : f32[2, 3]
              %d = exp(%b) : f32[2, 3]
              %r = mul(%c, %d) : f32[2, 3]
              return %r, %b
            }
        """,
        after="""
            func @main(%x: f32[2, 3]) {
              %a = softmax(%x) {axis = 1} : f32[2, 3]
              %c = exp(%a) : f32[2, 3]
              %r = mul(%c, %c) : f32[2, 3]
              return %r, %a as "b"
            }
        """,
    )


def test_nodes_of_several_results_are_merged_whole() -> None:
    check_rewrites(
        MergeEqualNodes(),
        before="""
            func @main(%x: f32[3]) {
              %v, %i = top_k(%x) {k = 2, axis = 0, largest = true, sorted = true} : f32[2], i64[2]
              %w, %j = top_k(%x) {k = 2, axis = 0, largest = true, sorted = true} : f32[2], i64[2]
              return %v, %j
            }
        """,
        after="""
            func @main(%x: f32[3]) {
              %v, %i = top_k(%x) {k = 2, axis = 0, largest = true, sorted = true} : f32[2], i64[2]
              return %v, %i as "j"
            }
        """,
    )


@pytest.mark.parametrize(
    "second",
    [
        "softmax(%x) {axis = 0} : f32[2, 2]",  # another attribute
        "softmax(%y) {axis = 1} : f32[2, 2]",  # another operand
        "log_softmax(%x) {axis = 1} : f32[2, 2]",  # another op
        "softmax(%x) {axis = 1} if %q : f32[2, 2]",  # another predicate
    ],
)
def test_different_nodes_stay(second: str) -> None:
    check_declines(
        MergeEqualNodes(),
        f"""
        func @main(%x: f32[2, 2], %y: f32[2, 2], %p: bool[], %q: bool[]) {{
          %a = softmax(%x) {{axis = 1}} if %p : f32[2, 2]
          %b = {second}
          return %a, %b
        }}
        """,
    )


def test_equal_constants_are_one() -> None:
    check_rewrites(
        MergeEqualConstants(),
        before="""
            const @a : f32[2] = [1, 2]
            const @b : f32[2] = [1, 2]
            const @c : f32[2, 1] = [1, 2]
            const @d : i32[2] = [1, 2]
            state @s : f32[2]
            func @main(%x: f32[2], %i: i32[2]) {
              %e = add(%x, @a) : f32[2]
              %f = add(%e, @b) : f32[2]
              %g = add(%f, @c) : f32[2, 2]
              %h = add(%i, @d) : i32[2]
              store @b to @s
              return %g, %h, @b
            }
        """,
        after="""
            const @a : f32[2] = [1.0, 2.0]
            const @c : f32[2, 1] = [1.0, 2.0]
            const @d : i32[2] = [1, 2]
            state @s : f32[2]
            func @main(%x: f32[2], %i: i32[2]) {
              %e = add(%x, @a) : f32[2]
              %f = add(%e, @a) : f32[2]
              %g = add(%f, @c) : f32[2, 2]
              %h = add(%i, @d) : i32[2]
              store @a to @s
              return %g, %h, @a as "b"
            }
        """,
    )


def test_constants_that_differ_in_bits_stay() -> None:
    check_declines(
        MergeEqualConstants(),
        """
        const @a : f32[] = [0.0]
        const @b : f32[] = [-0.0]
        func @main(%x: f32[2]) {
          %e = add(%x, @a) : f32[2]
          %f = add(%e, @b) : f32[2]
          return %f
        }
        """,
    )


def function_of(*arrays: np.ndarray) -> Function:
    """The sum of constants."""
    function = Function("main")
    b = Builder(function)
    total = b.constant(arrays[0])
    for array in arrays[1:]:
        total = b.emit(Add(), total, b.constant(array))
    function.output("y", total)
    return function


def test_large_constants_are_compared_whole() -> None:
    first = np.arange(3_000_000, dtype=np.float32).reshape(1, 3, -1)
    second, third = first.copy(), first.copy()
    third[0, 1, 77] += 1
    function = function_of(first, second, third, first.transpose(2, 1, 0).copy().transpose(2, 1, 0))
    assert MergeEqualConstants().run(function)
    assert len(function.module.constants) == 2
    verify_module(function.module)


def test_not_a_number_equals_itself() -> None:
    function = function_of(np.full(3, np.nan, np.float32), np.full(3, np.nan, np.float32))
    assert MergeEqualConstants().run(function)
    assert len(function.module.constants) == 1


def test_all_functions_of_the_module_share() -> None:
    function = function_of(np.ones(3, np.float32), np.zeros(3, np.float32))
    other = Function("other", function.module)
    b = Builder(other)
    one = np.ones(3, np.float32)
    other.output("y", b.emit(Add(), b.constant(one.copy()), b.constant(one)))
    assert not MergeEqualConstants().run(other)
    assert MergeEqualConstants().run(function)
    assert len(function.module.constants) == 2
    verify_module(function.module)
