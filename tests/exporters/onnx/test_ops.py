"""Every op that ONNX has, exported, means the same to ONNX Runtime."""

from __future__ import annotations

from itertools import groupby

import pytest

import afterglow.ops
from afterglow.exporters.onnx.registry import EXPORTERS
from afterglow.graph import OPS, Builder, Function
from afterglow.ops.movement import Transpose
from afterglow.testing.arrays import assert_close
from afterglow.testing.cases import CASES, Case
from afterglow.types import dtype as d
from tests.exporters.onnx.running import export, run

NOT_IN_ONNX = {"bit_cast", "overwrite", "pairwise_coupling", "reach", "random_uniform"}
"""Ops that ONNX cannot express, or of which a part cannot be."""
OF_STRINGS_AND_TREES = {
    "string_concat",
    "change_case",
    "regex_full_match",
    "look_up",
    "ngram_count",
    "tree_ensemble",
}
"""Ops that only the host runs: models with them are exported by nobody yet."""
PLAIN = (d.f32, d.i32, d.i64, d.boolean, d.u8, d.i8)
"""Element types that ONNX Runtime has most ops for."""
NAN_DIFFERS = {"top_k", "arg_max", "arg_min"}
"""Ops whose cases are about NaN, of which ONNX Runtime thinks otherwise."""
LACKING = {
    "shift_left",
    "shift_right",
    "requantize",
    "integer_sqrt",
    "div",
    "if{then_branch = @alone",
    "scan{body = @alone",
    "conv_transpose{strides = (2, 2), pads = (1, 0, 0, 1), dilations = (1, 1), groups = 1, "
    "output_pads = ()}(i32",
    "slice{starts = ()",
    "pad{before = ()",
    'einsum{equation = "...ij,...jk',
    "reduce_sum{axes = (0,), keepdims = true}(i8",
    "not(i8",
}
"""Cases with element types or shapes that ONNX or ONNX Runtime does not take."""
MOST_CASES = 2
"""Cases for each op."""


def is_plain(case: Case) -> bool:
    types = [t for t in (*case.types, *case.results()) if t is not None]
    named = case.op.mnemonic in NOT_IN_ONNX | OF_STRINGS_AND_TREES | NAN_DIFFERS
    lacking = any(str(case).startswith(text) for text in LACKING)
    sizes = all(t.size and t.dtype in PLAIN for t in types)
    return sizes and not named and not lacking


def few_of_each() -> list[Case]:
    plain = sorted(filter(is_plain, CASES), key=lambda case: case.op.mnemonic)
    groups = groupby(plain, key=lambda case: case.op.mnemonic)
    return [case for _, group in groups for case in [*group][:MOST_CASES]]


@pytest.mark.parametrize("case", few_of_each(), ids=str)
def test_an_exported_op_means_the_same(case: Case) -> None:
    f = Function("main")
    operands = [None if t is None else f.input(f"x{i}", t) for i, t in enumerate(case.types)]
    for index, value in enumerate(Builder(f).emit_all(case.op, *operands)):
        f.output(f"y{index}", value)
    feed = {f"x{i}": x for i, x in enumerate(case.inputs()) if x is not None}
    assert_close(run(export(f.module), feed), case.wanted(), case.tolerance)


def test_every_op_is_exported_or_lowered_or_known_not_to_be() -> None:
    primitives = {cls.mnemonic for cls in OPS.values() if cls.lower is afterglow.graph.Op.lower}
    exported = {cls.mnemonic for cls in (*EXPORTERS, Transpose)}
    assert primitives - exported <= NOT_IN_ONNX | OF_STRINGS_AND_TREES
