"""The text of kernels, and what it does: no GPU is needed."""

from __future__ import annotations

import numpy as np
import pytest

from afterglow.backends.cuda.tl import Code, Pointer
from afterglow.backends.cuda.tl.types import literal, number_text
from afterglow.backends.pointwise import compute
from afterglow.backends.pointwise.vocabulary import convert
from afterglow.ops.activation import Relu
from afterglow.types.dtype import bf16, boolean, f16, f32, f64, i8, i32, i64, u8, u64
from tests.backends.cuda.tl.kernels import compiles, tried


@pytest.mark.parametrize(
    ("dtype", "number", "text"),
    [
        (f32, 0.1, "0.10000000149011612"),
        (f64, -0.5, "-0.5"),
        (f32, float("inf"), 'float("inf")'),
        (f16, 1e6, 'float("inf")'),
        (i64, -7, "-7"),
        (u8, -1, "255"),
        (u64, 2**63, "9223372036854775808"),
        (boolean, True, "1"),
    ],
)
def test_numbers_are_written_exactly(dtype, number, text):
    assert number_text(dtype, number) == text


def test_constants_of_bf16_are_rounded_ones_of_f32():
    assert literal(bf16, 0.1, (4,)) == "tl.full((4,), 0.10009765625, tl.float32).to(tl.bfloat16)"


def test_an_expression_is_the_one_that_the_cpu_has():
    code = Code()
    compute(Relu(), f32, [Pointer(code, f32, "x").load(code.range(8))])
    assert code.lines == [
        "    v1 = tl.arange(0, 8)",
        "    v2 = tl.load(x + v1)",
        "    v3 = tl.full((), 0.0, tl.float32) > v2",
        "    v4 = tl.where(v3, tl.full((), 0.0, tl.float32), v2)",
    ]


def test_indices_need_no_names_and_fold():
    code = Code()
    item = code.range(8)
    assert (item * 4 + 0 + 3).text == "((v1 * 4) + 3)"
    assert (code.index(2) * 3).constant == 6
    assert code.smaller(code.index(7), 5).constant == 5


def test_indices_are_wide_where_memory_is():
    code = Code(index_type=i64)
    with code.loop(5) as number:
        assert number.dtype is i64
    assert code.lines[1] == "        v2 = tl.full((), 0, tl.int64) + i1"


def test_what_a_condition_excludes_is_neither_read_nor_written():
    x, y = np.arange(5, dtype="f4"), np.full(5, -1, "f4")

    def write(code, item, p, q):
        code.mask(item < 5)
        with code.when(item.combined("!=", 2)):
            q.store(p.load(item) * 2.0, item)

    text = tried(write, [x, y], items=8)
    assert y.tolist() == [0, 2, -1, 6, 8]
    assert compiles(text, [x, y])


def test_variables_keep_what_they_are_where_a_condition_does_not_hold():
    y = np.zeros(8, "i4")

    def write(code, item, q):
        total = code.variable(code.constant(i32, 10))
        with code.when(item < 6), code.when(code.is_multiple(item, 2)):
            code.assign(total, total + convert(code.number(item), i32))
        q.store(total, item)

    tried(write, [y], items=8)
    assert y.tolist() == [10, 10, 12, 10, 14, 10, 10, 10]


@pytest.mark.parametrize("index_type", [i32, i64])
def test_loops_whose_bounds_differ_run_for_each_item_from_its_own_to_its_own(index_type):
    y = np.zeros(8, "i4")

    def write(code, item, q):
        code.mask(item < 6)
        total = code.variable(code.constant(i32, 0))
        with code.loop(item + 2, item) as number:
            code.assign(total, total + convert(code.number(number), i32))
        q.store(total, item)

    text = tried(write, [y], items=8, index_type=index_type)
    assert y.tolist() == [1, 3, 5, 7, 9, 11, 0, 0]
    assert compiles(text, [y])


def test_loops_do_not_run_where_no_item_wants_them_to():
    y = np.zeros(4, "i4")

    def write(code, item, q):
        total = code.variable(code.constant(i32, 0))
        with code.when(item < 0), code.loop(item + 2) as number:
            code.assign(total, total + q.load(number))
        q.store(total, item)

    tried(write, [y], items=4)
    assert not y.any()


def test_variables_take_what_has_their_type_and_shape_only():
    code = Code(shape=(8,))
    total = code.variable(code.constant(i32, 0))
    with pytest.raises(TypeError, match="does not take"):
        code.assign(total, code.constant(f32, 1))
    alone = code.variable(code.constant(i32, 0), shape=())
    with pytest.raises(TypeError, match="does not take"):
        code.assign(alone, code.number(code.range(8)))


def test_blocks_of_several_axes_are_written_where_all_their_masks_hold():
    y = np.full((4, 8), -1, "f4")

    def write(code, q):
        row, column = code.along(code.range(4), 0, 2), code.along(code.range(8), 1, 2)
        with code.when(row < 3), code.when(column < 5):
            q.store(code.constant(f32, 2), row * 8 + column)

    text = tried(write, [y])
    wanted = np.full((4, 8), -1, "f4")
    wanted[:3, :5] = 2
    assert np.array_equal(y, wanted)
    assert compiles(text, [y])


def test_narrow_floats_are_computed_in_f32_and_rounded_where_they_are_stored():
    x = np.array([1, 2**-8, 3], f16.numpy)
    y = np.zeros(3, f16.numpy)

    def write(code, item, p, q):
        code.mask(item < 3)
        value = p.numbers.load(item)
        assert value.dtype is f32
        q.store(value + 2**-12, item)

    tried(write, [x, y], items=4)
    assert np.array_equal(y, (x.astype("f4") + np.float32(2**-12)).astype("f2"))


def test_booleans_are_bytes_in_memory_of_which_all_but_zero_are_true():
    x, y = np.array([0, 1, 2, 255], "u1"), np.zeros(4, bool)

    def write(code, item, p, q):
        held = Pointer(code, boolean, p.name)
        q.store(held.load(item), item)

    text = tried(write, [x, y], items=4)
    assert y.tolist() == [False, True, True, True]
    assert compiles(text, [x, y])


def test_products_that_are_added_are_rounded_once():
    x, y = np.array([1 + 2**-12], "f4"), np.zeros(1, "f4")

    def write(code, p, q):
        total = code.variable(code.constant(f32, -1))
        code.add_product(total, p.load(), p.load())
        q.store(total)

    tried(write, [x, y])
    assert y[0] == np.float32(2**-11 + 2**-24)


def test_products_of_integers_wrap_around():
    x, y = np.array([100], "i1"), np.zeros(1, "i1")

    def write(code, p, q):
        total = code.variable(code.constant(i8, 1))
        code.add_product(total, p.load(), p.load())
        q.store(total)

    tried(write, [x, y])
    assert y[0] == np.int8(10001 % 256)


def _waiting():
    code = Code(shape=(16,))
    code.wait_by("gdc_wait()")
    return code, Pointer(code, f32, "weight", is_constant=True), Pointer(code, f32, "x")


def _places(code, *texts):
    """At which line each of some texts is."""
    return [next(n for n, line in enumerate(code.lines) if text in line) for text in texts]


def test_constants_are_read_before_a_kernel_waits_for_the_one_before():
    code, weight, x = _waiting()
    place = code.range(16)
    weight.load(place)
    x.load(place)
    x.store(code.constant(f32, 1), place)
    first, wait, second = _places(code, "load(weight", "gdc_wait()", "load(x")
    assert first < wait < second
    assert sum("gdc_wait" in line for line in code.lines) == 1


def test_a_kernel_waits_before_the_outermost_block_in_which_it_must():
    code, weight, x = _waiting()
    with code.loop(3) as outer:
        weight.load(outer)
        with code.loop(4) as inner:
            x.load(inner)
    wait, loop = _places(code, "gdc_wait()", "for ")
    assert wait == loop - 1
    assert code.lines[wait] == "    gdc_wait()"


def test_a_kernel_waits_before_it_writes():
    code, weight, x = _waiting()
    x.store(weight.load(code.range(16)), code.range(16))
    wait, store = _places(code, "gdc_wait()", "tl.store")
    assert wait < store
