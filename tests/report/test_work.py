from __future__ import annotations

from pathlib import Path

import numpy as np
from onnx import TensorProto, helper, numpy_helper

from afterglow.driver.options import Options
from afterglow.driver.sources import open_source
from afterglow.driver.stages import Stages
from afterglow.ops.flops import program_flops
from afterglow.report.work import program_work

DIGITS = Path(__file__).parents[2] / "examples" / "digits" / "digits.onnx"


def program_of(source):
    stages = Stages(Options())
    module, _ = open_source(source).load(stages.options)
    return stages.plan(stages.lower(stages.optimise(module)))[0]


def model(nodes, x, y, **weights):
    made = [numpy_helper.from_array(value, name) for name, value in weights.items()]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", *x)],
        [helper.make_tensor_value_info("y", *y)],
        made,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])


def test_weights_inputs_and_outputs_count_once():
    program = program_of(DIGITS)
    work = program_work(program)
    assert work.flops == program_flops(program)
    assert work.io_bytes == 4 * (64 + 10)
    weights = 16 * 9 + 16 + 32 * 16 * 9 + 32 + 128 * 10 + 10
    assert 4 * weights <= work.weight_bytes <= 4 * weights + 64


def test_what_goes_through_the_arena_is_written_and_read():
    weights = np.ones((8, 8), np.float32)
    steps = [
        helper.make_node("MatMul", ["x", "a"], ["t"]),
        helper.make_node("Softmax", ["t"], ["u"]),
        helper.make_node("MatMul", ["u", "b"], ["y"]),
    ]
    row = (TensorProto.FLOAT, [4, 8])
    work = program_work(program_of(model(steps, row, row, a=weights, b=2 * weights)))
    assert work.flops == 2 * 2 * 4 * 8 * 8
    assert work.weight_bytes == 2 * 8 * 8 * 4
    assert work.io_bytes == 2 * 4 * 8 * 4
    assert work.arena_bytes % (4 * 8 * 4) == 0
    assert 2 * 4 * 8 * 4 <= work.arena_bytes <= 4 * 4 * 8 * 4


def test_of_a_table_only_the_rows_looked_up_are_read():
    steps = [helper.make_node("Gather", ["table", "x"], ["y"])]
    table = np.ones((1000, 8), np.float32)
    ids, rows = (TensorProto.INT64, [3]), (TensorProto.FLOAT, [3, 8])
    work = program_work(program_of(model(steps, ids, rows, table=table)))
    assert work.weight_bytes == 3 * 8 * 4
    assert work.io_bytes == 3 * 8 + 3 * 8 * 4
