"""Which kernel of a table is taken."""

from __future__ import annotations

from afterglow.backends.items.anchors import AnchorTable, SharedAnchor
from afterglow.instr import Buffer, OpInstr, Region
from afterglow.ops.elementwise import Add
from afterglow.ops.functions import Exp, Log
from afterglow.testing.cases.case import f32


class Written:
    """A kernel of which nothing is known but who wrote it."""

    def __init__(self, job, target):
        self.by = "nobody"

    def finish(self):
        return self.by


def _shared(kernel):
    kernel.by = "all"


def _step(op, columns=2):
    x, y = (Buffer(name, f32(3, columns), Region.INPUT) for name in "xy")
    return OpInstr(op, (y,), (x,))


def _table():
    wide = SharedAnchor((Exp,), _shared, lambda step: True, ("x",), False)
    table = AnchorTable(Written, [wide])
    table.declare(Exp, accepts=lambda step, target: step.outs[0].type.shape[1] == target)(
        lambda job, target: "first"
    )
    table.declare(Exp, accepts=lambda step, target: step.outs[0].type.shape[1] < 9, fuses=("x",))(
        lambda job, target, plan: "second"
    )
    return table


def test_the_first_kernel_that_accepts_a_step_is_taken_and_a_shared_one_last():
    table = _table()
    assert table.find(_step(Exp(), 4), 4).write(None, 4) == "first"
    assert table.find(_step(Exp(), 5), 4).write(None, 4, None) == "second"
    last = table.find(_step(Exp(), 10), 4)
    assert last.write(None, 4) == "all"
    assert last.fuses == ("x",)
    assert not last.epilogue
    assert last.plans is None


def test_tables_know_the_ops_that_they_have_kernels_of():
    table = _table()
    table.declare(Log, accepts=lambda step, target: False)(lambda job, target: "never")
    assert Exp in table
    assert Log in table
    assert Add not in table
    assert table.find(_step(Log()), 4) is None
    assert table.find(_step(Add()), 4) is None
