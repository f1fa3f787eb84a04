"""Strided moves: result[c] = operand[c], each with strides of its own. Most movement is one."""

from afterglow.backends.cpu.micro.move.axes import StridedMove
from afterglow.backends.cpu.micro.move.gather import Term, write_gathered
from afterglow.backends.cpu.micro.move.write import write_move

__all__ = ["StridedMove", "Term", "write_gathered", "write_move"]
