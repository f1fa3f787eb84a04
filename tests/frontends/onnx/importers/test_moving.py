"""Slices and ranges in loops whose starts are known only when they run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import onnx
import pytest
from onnx import parser
from onnxruntime import InferenceSession

import afterglow
from afterglow.frontends.common import control
from afterglow.graph import Function
from afterglow.graph.function import subgraphs_of
from afterglow.types import Array

X = np.linspace(-2, 3, 60, dtype=np.float32).reshape(10, 6)
HEADER = '<ir_version: 10, opset_import: ["": 17, "com.microsoft": 1]>\n'

LOOP = """
    main (float[10, 6] x) => (float[A] last, float[N, A] rows)
        <int64 one = {1}, int64 two = {2}, int64 three = {3}, int64 ten = {10}, int64[1] zero = {0},
         int64[1] axis1 = {1}, float[1] f = {0}> {
        most = Constant <value = int64 {TRIPS}> ()
        first = Constant <value = int64 {FIRST}> ()
        shape = Constant <value = int64[1] {A}> ()
        begin = Expand (f, shape)
        k_end, last, rows = Loop (most, , first, begin) <body = b
            (int64 i, bool c, int64 k, float[A] a)
            => (bool on, int64 next, float[A] b, float[A] row) {
            PICK
            row = Reshape (part, shape)
            bent = Sin (a)
            b = Add (bent, row)
            on = Identity (c)
        }>
    }
"""


def loop(pick: str, *, trips: int, size: int, first: int = 0, step: str = "Add (k, one)") -> str:
    """A loop over parts of x of `size` elements; `k` is carried, and moved by `step`."""
    text = LOOP.replace("PICK", f"next = {step}\n{pick}").replace("[A]", f"[{size}]")
    text = text.replace("{A}", f"{{{size}}}").replace("[N, A]", f"[{trips}, {size}]")
    return text.replace("TRIPS", str(trips)).replace("FIRST", str(first))


def between(start: str, end: str, axis: str = "zero", step: str = "") -> str:
    """The nodes that slice x from a start to an end."""
    return f"""
        s1 = Unsqueeze ({start}, zero)
        e1 = Unsqueeze ({end}, zero)
        part = Slice (x, s1, e1, {axis}{step})
    """


def functions(function: Function) -> Iterator[str]:
    """The ops of a function, and of those in it."""
    for node in function.nodes:
        yield node.op.mnemonic
        for inner in subgraphs_of(node.op):
            yield from functions(inner.function)


def check(text: str, *feeds: Mapping[str, Array]) -> None:
    """Each feed gives what ONNX Runtime gives."""
    proto = parser.parse_model(HEADER + text)
    compiled = afterglow.compile(proto, cache=False)
    session = InferenceSession(proto.SerializeToString())
    for feed in feeds or ({"x": X},):
        for got, want in zip(compiled.run(None, feed), session.run(None, feed), strict=True):
            assert (got.dtype, got.shape) == (want.dtype, want.shape)
            np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


def ops_of(text: str) -> list[str]:
    proto: onnx.ModelProto = parser.parse_model(HEADER + text)
    return [*functions(afterglow.import_model(proto).main)]


def check_moves(text: str) -> None:
    """The loop is one op, with slices in it that move, and gives what ONNX Runtime gives."""
    check(text)
    ops = ops_of(text)
    assert {"scan", "loop"} & {*ops}
    assert "dynamic_slice" in ops


def test_a_row_of_each_iteration() -> None:
    check_moves(loop("j = Add (i, one)" + between("i", "j"), trips=10, size=6))


def test_a_window_that_ends_with_the_last_row() -> None:
    check_moves(loop("j = Add (i, three)" + between("i", "j"), trips=8, size=18))


def test_a_window_in_steps_whose_end_lies_behind_the_last_row() -> None:
    text = between("i", "j", step=", stride")
    pick = "stride = Constant <value = int64[1] {2}> ()  j0 = Add (i, three)  j = Add (j0, one)"
    check_moves(loop(pick + text, trips=8, size=12))


def test_rows_from_the_last_to_the_first() -> None:
    check_moves(
        loop(between("next", "k"), trips=10, size=6, first=10, step="Sub (k, one)"),
    )


def test_rows_counted_from_the_end() -> None:
    check_moves(
        loop("n = Neg (i)  e = Sub (n, one)  s = Sub (e, one)" + between("s", "e"), trips=9, size=6)
    )


def test_a_slice_that_goes_backward() -> None:
    pick = "stride = Constant <value = int64[1] {-1}> ()  s = Add (i, two)"
    check_moves(loop(pick + between("s", "i", step=", stride"), trips=8, size=12))


def test_several_axes_of_which_one_is_known() -> None:
    pick = """
        i1 = Unsqueeze (i, zero)
        j = Add (i1, axis1)
        s1 = Concat <axis = 0> (i1, axis1)
        t = Constant <value = int64[1] {-1}> ()
        e1 = Concat <axis = 0> (j, t)
        part = Slice (x, s1, e1)
    """
    check_moves(loop(pick, trips=10, size=4))


def test_starts_through_casts_and_multiples() -> None:
    pick = """
        h = Cast <to = 6> (i)
        w = Constant <value = int32 {2}> ()
        d = Mul (h, w)
        s = Add (d, w)
        d1 = Unsqueeze (d, zero)
        s1 = Unsqueeze (s, zero)
        a0 = Constant <value = int32[1] {0}> ()
        part = Slice (x, d1, s1, a0)
    """
    check_moves(loop(pick, trips=5, size=12))


@pytest.mark.parametrize("trips", [9, 11])
def test_windows_that_leave_their_operand_are_cut_as_onnx_does(trips: int) -> None:
    text = f"""
        main (float[10, 6] x) => (float last) <float f = {{0}}, int64[1] zero = {{0}}> {{
            most = Constant <value = int64 {{{trips}}}> ()
            last = Loop (most, , f) <body = b (int64 i, bool c, float a) => (bool on, float b) {{
                two = Constant <value = int64[1] {{2}}> ()
                i1 = Unsqueeze (i, zero)
                e = Add (i1, two)
                part = Slice (x, i1, e, zero)
                s = ReduceSum <keepdims = 0> (part)
                b = Add (a, s)
                on = Identity (c)
            }}>
        }}
    """
    check(text)
    assert ("dynamic_slice" in ops_of(text)) == (trips == 9)


def test_an_end_of_0_counted_from_the_end_is_an_empty_slice() -> None:
    text = """
        main (float[10, 6] x) => (float last) <float f = {0}, int64[1] zero = {0}> {
            most = Constant <value = int64 {4}> ()
            last = Loop (most, , f) <body = b (int64 i, bool c, float a) => (bool on, float b) {
                one = Constant <value = int64[1] {1}> ()
                i1 = Unsqueeze (i, zero)
                e = Neg (i1)
                s = Sub (e, one)
                part = Slice (x, s, e, zero)
                t = ReduceSum <keepdims = 0> (part)
                b = Add (a, t)
                on = Identity (c)
            }>
        }
    """
    check(text)
    assert "dynamic_slice" not in ops_of(text)


def counting(condition: str, limit: str = "") -> str:
    """A counter of 32 bits that the condition ends."""
    return f"""
        main (float[10, 6] x) => (float[1, 6] last)
            <int32 start = {{0}}, int32 one = {{1}}, int32 n = {{10}}, int64[1] zero = {{0}},
             int32[1] rows = {{0}}, float[1, 6] f = {{0, 0, 0, 0, 0, 0}}> {{
            {limit}
            k_end, last = Loop ({"most" if limit else ""}, , start, f) <body = b
                (int64 i, bool c, int32 k, float[1, 6] a) => (bool on, int32 next, float[1, 6] b) {{
                next = Add (k, one)
                s1 = Unsqueeze (k, zero)
                e1 = Unsqueeze (next, zero)
                part = Slice (x, s1, e1, rows)
                s = Sin (a)
                b = Add (s, part)
                {condition}
            }}>
        }}
    """


def test_a_counter_that_the_condition_bounds() -> None:
    check_moves(counting("on = Less (next, n)"))
    both = "t = ReduceSum <keepdims = 0> (b)  small = Less (t, t2)  l = Less (next, n)"
    limit = "t2 = Constant <value = float {2}> ()"
    check_moves(counting(f"{limit} {both} on = And (small, l)"))


def test_a_counter_that_may_go_too_far_is_not_taken_for_bounded() -> None:
    text = counting("on = LessOrEqual (next, n)")
    check(text)
    assert "dynamic_slice" not in ops_of(text)


def test_a_range_that_moves() -> None:
    pick = "j = Add (i, three)  places = Range (i, j, one)  part = Gather <axis = 0> (x, places)"
    text = loop(pick, trips=8, size=18)
    check(text)
    assert "scan" in ops_of(text)
    backward = pick.replace("Range (i, j, one)", "Range (j, i, minus)")
    check(loop("minus = Constant <value = int64 {-2}> ()" + backward, trips=7, size=12))


def test_a_range_from_an_input_needs_no_version_for_each_value() -> None:
    text = """
        main (int64 p) => (int64[4] y, int64[0] none) {
            four = Constant <value = int64 {4}> ()
            one = Constant <value = int64 {1}> ()
            e = Add (p, four)
            y = Range (p, e, one)
            none = Range (e, p, one)
        }
    """
    check(text, *({"p": np.array(p)} for p in (-3, 0, 5)))
    ops_of(text)


def test_loops_in_loops_and_branches_in_them() -> None:
    text = """
        main (float[10, 6] x) => (float last)
            <float f = {0}, int64[1] zero = {0}, int64 two = {2}> {
            eight = Constant <value = int64 {8}> ()
            four = Constant <value = int64 {4}> ()
            last = Loop (eight, , f) <body = outer (int64 i, bool c, float a)
                => (bool on, float b) {
                i1 = Unsqueeze (i, zero)
                on = Identity (c)
                b = Loop (four, , a) <body = inner (int64 j, bool d, float p)
                    => (bool go, float q) {
                    go = Identity (d)
                    odd = Mod (j, two)
                    is_odd = Cast <to = 9> (odd)
                    v = If (is_odd) <
                        then_branch = t () => (float u) {
                            three = Constant <value = int64[1] {3}> ()
                            j1 = Unsqueeze (j, zero)
                            s = Concat <axis = 0> (i1, j1)
                            e = Add (s, three)
                            w = Slice (x, s, e)
                            u = ReduceMax <keepdims = 0> (w)
                        },
                        else_branch = e () => (float u2) {
                            sum = Add (i, j)
                            half = Div (sum, two)
                            row = Gather <axis = 0> (x, half)
                            u2 = ReduceMin <keepdims = 0> (row)
                        }
                    >
                    w2 = Sin (p)
                    q = Add (w2, v)
                }>
            }>
        }
    """
    check_moves(text)
    assert ops_of(text).count("scan") == 2
    too_far = text.replace("{8}", "{9}")  # of which each iteration becomes a loop of its own
    check(too_far)
    assert ops_of(too_far).count("scan") == 9


def test_a_scan_that_carries_a_position() -> None:
    text = """
        main (float[10, 6] x) => (int64 k_end, float[10, 2] y)
            <int64 z = {0}, int64[1] zero = {0}> {
            k_end, y = Scan <num_scan_inputs = 1, body = b (int64 k, float[6] row)
                => (int64 next, float[2] part) {
                one = Constant <value = int64 {1}> ()
                five = Constant <value = int64 {5}> ()
                two = Constant <value = int64[1] {2}> ()
                more = Add (k, one)
                next = Mod (more, five)
                s = Unsqueeze (k, zero)
                e = Add (s, two)
                part = Slice (row, s, e, zero)
            }> (z, x)
        }
    """
    check_moves(text)


def test_a_long_loop_with_a_slice_is_not_driven_by_the_host(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(control, "MOST_UNROLLED", 0)
    check_moves(loop("j = Add (i, one)" + between("i", "j"), trips=10, size=6))
