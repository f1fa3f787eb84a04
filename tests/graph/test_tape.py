"""Functions as lists of steps."""

from __future__ import annotations

import numpy as np

from afterglow.graph import Builder, Function, Module, Tape, parse_function, run_function
from afterglow.ops.elementwise import Div
from afterglow.types import TensorType
from afterglow.types.dtype import f32


def test_a_tape_gives_what_the_function_gives() -> None:
    function = parse_function("""
        func @main(%x: f32[2, 4], %k: i64[2]) {
          %split.0 = slice(%x) {starts = (0, 0), extents = (2, 2), steps = (1, 1)} : f32[2, 2]
          %values, %indices = top_k(%x) {k = 2, axis = 1, largest = true} : f32[2, 2], i64[2, 2]
          %sum = add(%split.0, %values) : f32[2, 2]
          return %sum, %indices, %k, %sum
        }
    """)
    tape = Tape(function)
    for seed in range(3):
        x = np.random.default_rng(seed).standard_normal((2, 4)).astype(np.float32)
        inputs = (x, np.array([seed, 1]))
        for got, want in zip(tape.run(inputs), run_function(function, inputs), strict=True):
            assert got.dtype == want.dtype
            np.testing.assert_array_equal(got, want)


def test_a_tape_keeps_constants_and_not_what_it_computed() -> None:
    function = Function("main", Module("m"))
    x = function.input("x", TensorType(f32, (2,)))
    zero = function.module.constant("zero", np.zeros(2, np.float32))
    function.output("y", Builder(function).emit(Div(), x, zero))
    function.output("zero", zero)
    tape = Tape(function)
    for value in (1, -1):
        y, same = tape.run([np.full(2, value, np.float32)])
        assert y.tolist() == [value * np.inf] * 2
        assert same is zero.data
