"""Order nodes so that as few bytes as possible are live at once."""

from __future__ import annotations

from collections.abc import Mapping

from afterglow.graph import Function, Node
from afterglow.instr import Program
from afterglow.lowering.scheduling.model import Tidy, model_of
from afterglow.lowering.scheduling.solve import best_order
from afterglow.passes import Pass


def leave_copies(program: Program) -> None:
    """Do not tidy at all: for programs whose copies stay."""


class Schedule(Pass):
    """Puts the nodes in an order of low peak memory: where none is better, in their own order.

    Nodes that will run as one kernel come one after the other. Which memory a node takes depends on
    what is done to the program later: `tidy` is the part of that which decides where values lie.
    """

    name = "schedule"

    def __init__(self, tidy: Tidy = leave_copies) -> None:
        self.tidy = tidy

    def run(self, function: Function) -> bool:
        """See the class."""
        return self.run_after(function, {})

    def run_after(self, function: Function, after: Mapping[Node, Node]) -> bool:
        """The same, with nodes that come after others although they need nothing of them."""
        model = model_of(function, self.tidy, after)
        order = model.order(best_order(model.problem))
        if order == list(function.nodes):
            return False
        function.reorder(order)
        return True


def peak_bytes(function: Function, tidy: Tidy = leave_copies) -> int:
    """The most bytes that are live at once if the nodes run in the order they are in."""
    problem = model_of(function, tidy).problem
    return problem.peak(range(len(problem.steps)))
