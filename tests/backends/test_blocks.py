"""What backends on blocks of bytes share: where buffers are, copies, and what the host runs."""

from __future__ import annotations

import numpy as np
import pytest

from afterglow.backends.backend import Settings
from afterglow.backends.blocks import (
    Blocks,
    NamedTargets,
    as_copy,
    lowered_or_hosted,
    runs_on_host,
)
from afterglow.instr import ON_HOST, Copy, OpInstr, Stack, parse_program
from afterglow.support.errors import UsageError

CONSTANTS = {"c": np.ones(4, np.float32), "d": np.ones(1, np.float32)}
PROGRAM = parse_program(
    """
program @main arena 128 {
  input  %x : f32[2, 3]
  output %y : f32[3, 2]
  const  @c : f32[4]
  const  @d : f32[1]
  %t = alloc f32[2, 3] at 64
  relu out %t, in %x
  %v = view %t[1:2, 1:3] : f32[1, 2]
  transpose out %y, in %t {perm = (1, 0)}
  dealloc %t
}
""",
    CONSTANTS,
)


def steps():
    return [step for step in PROGRAM.body if isinstance(step, OpInstr)]


def test_buffers_are_at_bytes_of_blocks():
    blocks = Blocks(PROGRAM)
    view = next(
        step.buffer
        for step in PROGRAM.body
        if getattr(step, "buffer", None) and step.buffer.is_view
    )
    assert blocks.place(PROGRAM.inputs[0]) == ("in0", 0)
    assert blocks.place(PROGRAM.outputs[0]) == ("out0", 0)
    assert blocks.place(PROGRAM.constants[1]) == ("const", 64)
    assert blocks.place(view) == ("arena", 64 + 4 * 4)
    assert len(blocks.constants) == 128


def test_a_transpose_is_a_copy_of_a_view():
    relu, transpose = steps()
    assert as_copy(relu) is None
    copy = as_copy(transpose)
    assert isinstance(copy, Copy)
    assert (copy.src.type.shape, copy.src.strides) == ((3, 2), (1, 3))


def test_broadcasting_is_strides_of_zero():
    row = PROGRAM.constants[0].broadcast((2, 3, 4))
    assert (row.type.shape, row.strides) == ((2, 3, 4), (0, 0, 1))
    assert PROGRAM.constants[1].broadcast((7,)).strides == (0,)


def test_the_host_runs_what_cannot_be_lowered():
    relu, transpose = steps()
    assert lowered_or_hosted(relu) == ()
    assert lowered_or_hosted(Stack((relu,), ())) == ()
    (plan,) = lowered_or_hosted(transpose)
    assert plan.algorithm == ON_HOST
    assert not runs_on_host(transpose)
    transpose.plan = plan
    assert runs_on_host(transpose)


def test_an_unknown_target_is_refused():
    factory = NamedTargets(
        "toy", {"host": "a toy", "large": "a larger one"}, lambda settings: settings
    )
    assert factory(Settings("large")).target == "large"
    with pytest.raises(UsageError) as caught:
        factory(Settings("small"))
    assert str(caught.value) == (
        "error: backend 'toy' has no target 'small'\n  help: there are host, large"
    )
