"""Strided moves: result[c] = operand[c], each with strides of its own. Most movement is one."""

from afterglow.backends.cpu.micro.move.axes import StridedMove
from afterglow.backends.cpu.micro.move.pick import Term, write_picked
from afterglow.backends.cpu.micro.move.write import write_move

__all__ = ["StridedMove", "Term", "write_move", "write_picked"]
