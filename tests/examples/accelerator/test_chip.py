"""The simulated chip keeps the rules of its ISA."""

from __future__ import annotations

import numpy as np
import pytest
from ember_chip.clock import measure, one_by_one
from ember_chip.isa import Instr, View, dense
from ember_chip.machine import ChipError, Machine


def tile(dtype, *shape, at=0, base="", strides=None):
    return View(dtype, shape, at, strides or dense(shape), base)


def tagged(name, target, source, tag):
    return Instr(name, (target, source), (("tag", tag),))


def wait(tag):
    return Instr("wait", (), (("tag", tag),))


def chip(**memory):
    return Machine({name: array.view(np.uint8).reshape(-1) for name, array in memory.items()})


def product(a, w, passes):
    machine = chip(a=a, w=w)
    out = tile("f32", a.shape[0], w.shape[1], at=131072)
    left, right = tile("f32", *a.shape), tile("f32", *w.shape, at=65536)
    machine.run(
        [
            tagged("load", left, tile("f32", *a.shape, base="a"), 0),
            tagged("load", right, tile("f32", *w.shape, base="w"), 1),
            wait(1),
            Instr("mm.set", (out, left, right), (("passes", passes),)),
        ]
    )
    return out.array(machine.scratchpad)


@pytest.mark.parametrize(("passes", "error"), [(1, 2**-7), (3, 2**-14), (6, 2**-20)])
def test_more_passes_are_more_precise(passes, error):
    rng = np.random.default_rng(0)
    a, w = (rng.uniform(0.5, 1, shape).astype(np.float32) for shape in ((40, 50), (50, 20)))
    exact = a.astype(np.float64) @ w.astype(np.float64)
    largest = np.abs(product(a, w, passes) / exact - 1).max()
    assert error / 100 < largest < error


def test_infinities_do_not_become_nan():
    a = np.array([[np.inf, 1], [np.nan, 1], [3e38, 0]], np.float32)
    w = np.array([[1.1], [2]], np.float32)
    np.testing.assert_array_equal(product(a, w, 6)[:2], [[np.inf], [np.nan]])
    assert product(a, w, 6)[2] == pytest.approx(3.3e38)


def test_products_of_bytes_are_exact_around_their_zero_points():
    rng = np.random.default_rng(0)
    a, w = rng.integers(0, 256, (9, 300), np.uint8), rng.integers(-128, 128, (300, 5), np.int8)
    machine = chip(a=a, w=w)
    views = tile("i32", 9, 5, at=8192), tile("u8", 9, 300), tile("i8", 300, 5, at=4096)
    machine.run(
        [
            tagged("load", views[1], tile("u8", 9, 300, base="a"), 0),
            tagged("load", views[2], tile("i8", 300, 5, base="w"), 1),
            wait(1),
            Instr("mm.set", views, (("a_zero", 7), ("w_zero", -3))),
            Instr("mm.add", views, (("a_zero", 7), ("w_zero", -3))),
        ]
    )
    exact = 2 * (a.astype(np.int64) - 7) @ (w.astype(np.int64) + 3)
    np.testing.assert_array_equal(views[0].array(machine.scratchpad), exact)


def test_a_reduction_accumulates_along_strides_of_zero():
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    machine = chip(x=x)
    inside, total = tile("f32", 3, 4), tile("f32", 3, 4, at=1024, strides=(1, 0))
    row = tile("f32", 3, at=1024)
    machine.run(
        [
            tagged("load", inside, tile("f32", 3, 4, base="x"), 0),
            Instr("v.copy", (row, 100.0)),
            wait(0),
            Instr("r.add", (total, inside)),
        ]
    )
    np.testing.assert_array_equal(row.array(machine.scratchpad), 100 + x.sum(1))


X = np.arange(32, dtype=np.float32)
LOAD = tagged("load", tile("f32", 32), tile("f32", 32, base="x"), 0)
STORE = tagged("store", tile("f32", 32, base="x"), tile("f32", 32), 1)
ODD = tile("f32", 8, at=4, strides=(4,))
BROKEN = {
    "reads what DMA has not finished writing, transfer 0": [
        LOAD,
        Instr("v.abs", (tile("f32", 32, at=512), tile("f32", 32))),
    ],
    "overwrites what DMA has not finished writing, transfer 0": [LOAD, Instr("v.copy", (ODD, 0.0))],
    "overwrites what DMA still reads, transfer 1": [
        STORE,
        Instr("v.copy", (tile("f32", 1, at=124), 0.0)),
    ],
    "bytes 262144 to 262148 of the scratchpad: no tile": [
        Instr("v.copy", (tile("f32", 1, at=262144), 0.0))
    ],
    "bytes 2 to 6 of the scratchpad: no tile": [Instr("v.copy", (tile("f32", 1, at=2), 0.0))],
    "bytes 128 to 132 of x: no tile": [
        tagged("load", tile("f32", 1), tile("f32", 1, at=128, base="x"), 0)
    ],
    "there is no base register 'y'": [tagged("load", tile("f32", 1), tile("f32", 1, base="y"), 0)],
    "only DMA reads and writes DRAM": [Instr("v.copy", (tile("f32", 1, base="x"), 0.0))],
    "there is no instruction 'v.sinc'": [Instr("v.sinc", (ODD, ODD))],
    "the tiles of a vector instruction have one shape": [Instr("v.abs", (tile("f32", 2), ODD))],
    "v.equal gives bool, not float32": [Instr("v.equal", (ODD, ODD, ODD))],
}


@pytest.mark.parametrize("rule", BROKEN)
def test_the_chip_refuses_what_its_isa_forbids(rule):
    with pytest.raises(ChipError) as caught:
        chip(x=X).run(BROKEN[rule])
    assert str(caught.value).splitlines()[0] == rule


def test_bytes_between_those_of_a_transfer_are_free():
    strided = tile("f32", 8, strides=(4,))
    load = tagged("load", strided, tile("f32", 8, base="x"), 0)
    chip(x=X).run([load, Instr("v.copy", (ODD, 0.0))])


def test_transfers_run_beside_the_array():
    a, w, out = tile("f32", 64, 64), tile("f32", 64, 64, at=16384), tile("f32", 64, 64, at=32768)
    other = tile("f32", 64, 64, at=65536)
    program = [
        tagged("load", other, tile("f32", 64, 64, base="x"), 0),
        Instr("mm.set", (out, a, w), (("passes", 6),)),
        wait(0),
    ]
    computing, moving = 32 + 6 * 4 * 4 * 64, 64 + 64 * 64 * 4 // 4
    assert measure(program)[0].cycles == 1 + computing + 1
    assert measure(one_by_one(program))[0].cycles == moving + computing + 1
    assert measure(program)[0].utilisation == pytest.approx(6 * 64**3 / 256 / (computing + 2))
