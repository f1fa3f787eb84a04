"""Which instructions may run as one kernel, as far as their ops decide it.

A stack has at most one anchor (a matrix product, a convolution, a reduction …) and element-wise
instructions before and after it. What may join is read off facts about ops: `parallel`,
`elementwise`, `reads_once`, `dequantizes`; there is no list of patterns. The pass that forms stacks
asks these rules, and so does the scheduler, which has to know what that pass will do.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property

from afterglow.instr.buffer import Buffer
from afterglow.instr.instruction import OpInstr
from afterglow.instr.tiling import is_anchor, reads_once
from afterglow.support.lazy_dataclass import dataclass

MOST_OPERANDS = 12
"""Buffers that a stack may read: more would not fit the registers of a vector machine."""
MOST_MEMBERS = 64


@dataclass(frozen=True, eq=False)
class StackGroup:
    """Instructions, in the order of the program, that are to run as one kernel."""

    members: tuple[OpInstr, ...]

    @cached_property
    def anchor(self) -> OpInstr | None:
        """The member that needs more than one element of an operand for each of its results."""
        return next((step for step in self.members if is_anchor(step)), None)

    @cached_property
    def results(self) -> frozenset[Buffer]:
        """What the members write."""
        return frozenset(out for step in self.members for out in step.outs)

    @cached_property
    def reads(self) -> frozenset[Buffer]:
        """What the members read and none of them writes."""
        read = {b for step in self.members for b in step.ins if b is not None}
        return frozenset(read - self.results)


def may_join(first: StackGroup, second: StackGroup) -> bool:
    """Whether one kernel may do the work of a group and of one that reads its results.

    Nothing may be computed twice, and the values must fit the registers. A dequantization joins
    its reader, not its producer: the quantized form is the better one to store.
    """
    if first.anchor is not None and second.anchor is not None:
        return False
    if second.members[-1].op.dequantizes or not _fits(first, second):
        return False
    predicate = second.members[0].predicate
    if any(step.predicate is not predicate for step in (*first.members, *second.members)):
        return False
    roots = {result.root for result in first.results}
    passed = [b for b in second.reads if b.root in roots]
    whole = all(b in first.results and not b.is_view for b in passed)
    return whole and _is_computed_once(first, second, passed)


def _fits(first: StackGroup, second: StackGroup) -> bool:
    members = {*first.members, *second.members}
    reads = (first.reads | second.reads) - first.results - second.results
    return len(members) <= MOST_MEMBERS and len(reads) <= MOST_OPERANDS


def _is_computed_once(first: StackGroup, second: StackGroup, passed: Iterable[Buffer]) -> bool:
    """Whether no tile of what passes between two groups is computed again for another tile.

    Values pass in one shape. To an anchor they do only if it reads each element once: a convolution
    or a matrix product would compute it again for every tile. To dequantize again costs less than
    to store the result.
    """
    if second.anchor is not None:
        dequantized = {b for step in first.members if step.op.dequantizes for b in step.outs}
        return all(b in dequantized or reads_once(second.anchor, b) for b in passed)
    shape = second.members[0].outs[0].type.shape
    return all(buffer.type.shape == shape for buffer in passed)
