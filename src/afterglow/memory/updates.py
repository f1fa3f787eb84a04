"""Compute the new value of state where the old one lies, if nobody needs that any more."""

from __future__ import annotations

from afterglow.instr import Buffer, Copy, Instr, Program, Region
from afterglow.instr.overlap import same_place
from afterglow.memory.sharing import replaceable_operands
from afterglow.memory.uses import Uses


def update_in_place(program: Program) -> int:
    """Compute state in place instead of copying it there; say how often. Lifetimes come after."""
    updater = _Updater(program)
    copies = [step for step in program.body if isinstance(step, Copy)]
    removed: set[Instr] = {copy for copy in copies if updater.update(copy)}
    program.body = [step for step in program.body if step not in removed]
    return len(removed)


class _Updater:
    """Knows who touches each buffer, and remembers which ones became state."""

    def __init__(self, program: Program) -> None:
        self.steps = program.body
        self.uses = Uses(program)
        self.moved: set[Buffer] = set()

    def update(self, copy: Copy) -> bool:
        """… out %s …; copy out @state, in %s  ->  … out view of @state …."""
        state, value = copy.dest, copy.src
        if state.region is not Region.STATE or value.region is not Region.ARENA:
            return False
        if state.is_view or value.is_view or value in self.moved:
            return False
        writers = self.uses.writers[value]
        if len(writers) != 1 or not self._may_write(writers[0], state, value, copy):
            return False
        self.moved.add(value)
        views: dict[Buffer, Buffer] = {}
        for index in self.uses.touching(value):
            self.steps[index].substitute(lambda buffer: _moved(buffer, value, state, views))
        return True

    def _may_write(self, index: int, state: Buffer, value: Buffer, copy: Copy) -> bool:
        """Whether a step may write a value over state: element by element, and nobody follows."""
        end = self.uses.position[copy]
        others = [i for i in self.uses.touching(state) if i != end]
        if any(other > index for other in others):
            return False
        step = self.steps[index]
        if not any(access.writes and b is value for access, b in step.accesses()):
            return False
        replaceable = [b for b in replaceable_operands(step, value) if same_place(b, state)]
        read = [b for _, b in step.accesses() if b.root is state]
        return all(any(b is known for known in replaceable) for b in read)


def _moved(buffer: Buffer, value: Buffer, state: Buffer, views: dict[Buffer, Buffer]) -> Buffer:
    """A value, or a view of it, as a view of the state; any other buffer as it is."""
    if buffer.root is not value:
        return buffer
    if buffer not in views:
        views[buffer] = buffer.placed_in(state)
    return views[buffer]
