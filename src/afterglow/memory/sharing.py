"""Let results take over the memory of operands that die.

An instruction says which operands its result may overwrite; a stack allows it where result and
operand are cut into tiles in the same way. The result then is a view of the operand's buffer, also
if its shape is another or its elements are narrower.
"""

from __future__ import annotations

from collections.abc import Iterator

from afterglow.instr import Access, Buffer, Instr, OpInstr, Program, Region, Stack, ops_of
from afterglow.instr.overlap import byte_span, same_place
from afterglow.instr.tiling import may_take_over
from afterglow.memory.uses import Uses
from afterglow.types.extent import at_least


def share_buffers(program: Program) -> int:
    """Work in place wherever an operand dies; say how often."""
    return _Sharer(program).run()


class _Sharer:
    """Goes through a program in order, and remembers which buffer became part of which."""

    def __init__(self, program: Program) -> None:
        self.program = program
        uses = Uses(program)
        touched = {root: uses.touching(root) for root in {*uses.readers, *uses.writers}}
        self.first = {root: positions[0] for root, positions in touched.items()}
        self.last = {root: positions[-1] for root, positions in touched.items()}
        self.home: dict[Buffer, Buffer] = {}
        """The whole buffer at whose start a whole buffer lies now."""

    def run(self) -> int:
        for index, step in enumerate(self.program.body):
            taken: set[Buffer] = set()
            for result in list(_results(step)):
                home = self._free_operand(index, step, result, taken)
                if home is not None and self.first[result] == index:
                    self.home[result] = home
                    self.last[home] = max(self.last[home], self.last[result])
                    taken.add(home)
        views: dict[Buffer, Buffer] = {}
        for step in self.program.body:
            step.substitute(lambda buffer: self._moved(buffer, views))
        return len(self.home)

    def _free_operand(
        self, index: int, step: Instr, result: Buffer, taken: set[Buffer]
    ) -> Buffer | None:
        """The memory of an operand that nobody needs after this step, if the result may have it."""
        for operand in replaceable_operands(step, result):
            root = self._home(operand.root)
            free = root.is_reusable and self.last[root] == index and root not in taken
            at_start = operand.start == 0 and operand.is_dense
            if free and at_start and not self._needs_more(step, operand, result):
                return root
        return None

    def _needs_more(self, step: Instr, operand: Buffer, result: Buffer) -> bool:
        """Whether a step uses an operand's memory otherwise, so that its result cannot take it.

        It may need other parts of it, or a stack the same part in another way.
        """
        root = self._home(operand.root)
        size = result.type.size * result.type.dtype.itemsize
        return any(
            self._home(b.root) is root
            and not at_least(byte_span(b)[0], size)
            and not (same_place(b, operand) and _may_be_replaced(step, b, result))
            for _, b in step.accesses()
        )

    def _home(self, root: Buffer) -> Buffer:
        while root in self.home:
            root = self.home[root]
        return root

    def _moved(self, buffer: Buffer, views: dict[Buffer, Buffer]) -> Buffer:
        home = self._home(buffer.root)
        if home is buffer.root:
            return buffer
        if buffer not in views:
            views[buffer] = buffer.placed_in(home)
        return views[buffer]


def _may_be_replaced(step: Instr, operand: Buffer, result: Buffer) -> bool:
    """Whether a result may lie where a step reads an operand, as far as that one reading goes."""
    return not isinstance(step, Stack) or may_take_over(step, result, operand)


def _results(step: Instr) -> Iterator[Buffer]:
    """The whole buffers of the arena that a step makes."""
    for access, buffer in step.accesses():
        made = access.writes and access is not Access.SCRATCH
        if made and buffer.region is Region.ARENA and not buffer.is_view:
            yield buffer


def replaceable_operands(step: Instr, result: Buffer) -> Iterator[Buffer]:
    """The operands whose elements the result may overwrite, one by one; never a predicate."""
    tested = {op.predicate.root for op in ops_of(step) if op.predicate is not None}
    yield from (b for b in _overwritable(step, result) if b.root not in tested)


def _overwritable(step: Instr, result: Buffer) -> Iterator[Buffer]:
    size = result.type.dtype.itemsize
    match step:
        case OpInstr():
            for operand in step.inplace_operands():
                same = operand.type.shape == result.type.shape
                if same and operand.type.dtype.itemsize >= size:
                    yield operand
        case Stack():
            for access, operand in step.accesses():
                equal = operand.type.dtype.itemsize == size
                if not access.writes and equal and may_take_over(step, result, operand):
                    yield operand
