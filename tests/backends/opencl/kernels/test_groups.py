"""How work is divided on devices that are no processors, and on processors."""

from __future__ import annotations

from dataclasses import replace

from afterglow.backends.opencl.planner import write
from afterglow.graph import Op
from afterglow.instr import Buffer, OpInstr, Region
from afterglow.ops.attention import Attention
from afterglow.ops.reduction import ReduceSum
from afterglow.types import TensorType
from afterglow.types.dtype import f32
from tests.backends.opencl.test_driver import LIMITS

OTHER = replace(LIMITS, kind="gpu", lanes=1)


def _step(op: Op, *shapes: tuple[int, ...]) -> OpInstr:
    types = [TensorType(f32, shape) for shape in shapes]
    result = op.infer(*types)
    assert isinstance(result, TensorType)
    ins = tuple(Buffer(f"x{n}", type, Region.INPUT) for n, type in enumerate(types))
    return OpInstr(op, (Buffer("y", result, Region.OUTPUT),), ins)


def test_the_items_of_a_work_group_combine_what_they_found():
    step = _step(ReduceSum((1,)), (3, 1000))
    kernel = write(step, OTHER)
    assert (kernel.items, kernel.group) == ((3 * 128,), (128,))
    assert "barrier" in kernel.text
    assert "barrier" not in write(step, LIMITS).text


def test_rows_of_queries_are_items_of_a_work_group_or_share_one_on_processors():
    step = _step(Attention(1.0), (1, 2, 70, 8), (1, 2, 70, 8), (1, 2, 70, 8))
    kernel = write(step, OTHER)
    assert (kernel.items, kernel.group) == ((128, 2, 1), (64, 1, 1))
    kernel = write(step, LIMITS)
    assert (kernel.items, kernel.group) == ((35, 2, 1), (1, 1, 1))
