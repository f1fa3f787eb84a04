from __future__ import annotations

from pathlib import Path

import pytest

from afterglow.driver.options import Options
from afterglow.driver.sources import open_source
from afterglow.driver.stages import Stages
from afterglow.instr import Program
from afterglow.ops.attention import Attention
from afterglow.ops.flops import program_flops, step_bytes, step_flops
from afterglow.ops.recurrent import LSTM
from afterglow.types import TensorType
from afterglow.types.dtype import f32

DIGITS = Path(__file__).parents[2] / "examples" / "digits" / "digits.onnx"


@pytest.fixture(scope="module")
def program() -> Program:
    stages = Stages(Options())
    module, _ = open_source(DIGITS).load(stages.options)
    return stages.plan(stages.lower(stages.optimise(module)))[0]


def test_two_operations_for_each_multiplication(program):
    first = 8 * 8 * 16 * 9 * 1
    second = 4 * 4 * 32 * 9 * 16
    dense = 128 * 10
    assert program_flops(program) == 2 * (first + second + dense)


def test_what_is_between_products_is_not_counted(program):
    assert 0.0 in map(step_flops, program.body)


def test_every_buffer_is_counted_once(program):
    softmax = next(step for step in reversed(program.body) if step_bytes(step))
    assert step_bytes(softmax) == 2 * 10 * 4


def f(*shape: int) -> TensorType:
    return TensorType(f32, shape)


def test_the_work_of_attention():
    q, k, v = f(2, 3, 5, 8), f(2, 3, 7, 8), f(2, 3, 7, 4)
    assert Attention(1.0).work(f(2, 3, 5, 4), [q, k, v, None]) == 2 * 3 * 5 * 7 * (8 + 4)


def test_the_work_of_a_recurrent_layer():
    x, weight, recurrence = f(6, 2, 3), f(16, 3), f(16, 4)
    work = LSTM().work(f(6, 2, 4), [x, weight, recurrence])
    assert work == 6 * 2 * 16 * (3 + 4)
