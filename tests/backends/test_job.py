"""Jobs: how the parts of a stack are told apart, and which jobs are alike."""

from __future__ import annotations

import numpy as np

from afterglow.backends.cpu.target import Target
from afterglow.backends.job import Job
from afterglow.instr import Buffer, Copy, OpInstr, Region, Stack
from afterglow.ops.activation import Relu
from afterglow.ops.elementwise import Add, Mul
from afterglow.ops.functions import Exp
from afterglow.ops.linear import MatMul
from afterglow.ops.softmax import Softmax
from afterglow.types import TensorType
from afterglow.types.dtype import f32, f64
from tests.backends.cpu.kernels.harness import best_kernel

TARGET = Target.of("x86-64-v3")


def buffer(name: str, *shape: int, region: Region = Region.ARENA, dtype=f32) -> Buffer:
    data = np.zeros(shape, dtype.numpy) if region is Region.CONSTANT else None
    return Buffer(name, TensorType(dtype, shape), region, data=data)


def step(op, out: Buffer, *ins: Buffer | None) -> OpInstr:
    return OpInstr(op, (out,), ins)


def test_an_element_wise_step_has_no_anchor() -> None:
    x, y = buffer("x", 2, 3), buffer("y", 2, 3)
    job = Job.of(step(Exp(), y, x))
    assert job.anchor is None
    assert [s.op for s in job.after] == [Exp()]
    assert job.buffers == (y, x)


def test_steps_before_and_after_an_anchor() -> None:
    x, w, e, m, r, bias, y = (buffer(name, 3, 3) for name in "xwemrby")
    body = (
        step(Exp(), e, x),
        step(MatMul(), m, e, w),
        step(Mul(), r, bias, bias),
        step(Add(), y, m, r),
    )
    job = Job.of(Stack(body, (e, m, r)))
    assert job.anchor is body[1]
    assert job.before == (body[0],)
    assert job.after == (body[2], body[3])
    assert job.steps == body
    assert {*job.buffers} == {x, w, bias, y}


def test_a_step_beside_the_anchor_comes_after_it() -> None:
    """It is before the anchor in the stack, but the anchor does not need it."""
    x, w, m, s, y = (buffer(name, 3, 3) for name in "xwmsy")
    body = (step(Exp(), s, x), step(MatMul(), m, x, w), step(Add(), y, m, s))
    job = Job.of(Stack(body, (m, s)))
    assert job.before == ()
    assert job.after == (body[0], body[2])


def test_a_copy_is_a_transpose_that_moves_no_axis() -> None:
    x, y = buffer("x", 2, 3), buffer("y", 2, 3)
    job = Job.of(Copy(y, x))
    assert job.anchor is not None
    assert job.anchor.op.perm == (0, 1)
    assert job.anchor.ins == (x,)


def relu_key(shape: tuple[int, ...] = (2, 3), *, dtype=f32, **other: object) -> str:
    x = buffer("x", *shape, dtype=dtype)
    return Job.of(step(Relu(), buffer("y", *shape, dtype=dtype), other.get("x", x))).key


def test_equal_jobs_have_equal_keys_and_equal_code() -> None:
    jobs = [
        Job.of(step(Softmax(axis=-1), buffer(f"{name}.y", 4, 5), buffer(f"{name}.x", 4, 5)))
        for name in ("first", "second")
    ]
    assert jobs[0].key == jobs[1].key
    first, second = (best_kernel(job, TARGET) for job in jobs)
    assert first.name == second.name
    assert first.module.text == second.module.text


def test_where_a_buffer_lies_does_not_matter() -> None:
    low, high = buffer("low", 2, 3), buffer("high", 2, 3)
    low.address, high.address = 0, 4096
    assert relu_key(x=low) == relu_key(x=high)
    assert relu_key(x=buffer("given", 2, 3, region=Region.INPUT)) == relu_key(x=low)


def test_other_jobs_have_other_keys() -> None:
    whole = buffer("whole", 2, 5)
    gaps = Buffer("gaps", TensorType(f32, (2, 3)), Region.ARENA, base=whole, strides=(5, 1))
    constant = buffer("constant", 2, 3, region=Region.CONSTANT)
    keys = [
        relu_key(),
        relu_key((3, 2)),
        relu_key((6,)),
        relu_key(dtype=f64),
        relu_key(x=gaps),
        relu_key(x=constant),
        Job.of(step(Exp(), buffer("y", 2, 3), buffer("x", 2, 3))).key,
    ]
    assert len(set(keys)) == len(keys)


def test_an_operand_that_is_read_twice_is_not_two() -> None:
    x, other, y = buffer("x", 3), buffer("other", 3), buffer("y", 3)
    assert Job.of(step(Add(), y, x, x)).key != Job.of(step(Add(), y, x, other)).key


def test_working_in_place_is_another_job() -> None:
    x = buffer("x", 3)
    in_place = Job.of(step(Relu(), x, x))
    assert in_place.buffers == (x,)
    assert in_place.key != relu_key((3,))


def test_locals_are_part_of_the_key() -> None:
    def key(hidden: bool) -> str:
        x, e, y = (buffer(name, 3) for name in "xey")
        body = (step(Exp(), e, x), step(Relu(), y, e))
        return Job.of(Stack(body, (e,) if hidden else ())).key

    assert key(hidden=True) != key(hidden=False)


def test_a_job_without_elements_is_empty() -> None:
    assert Job.of(step(Relu(), buffer("y", 0, 3), buffer("x", 0, 3))).is_empty
    assert not Job.of(step(Relu(), buffer("y", 1, 3), buffer("x", 1, 3))).is_empty
