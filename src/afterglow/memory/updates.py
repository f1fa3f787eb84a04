"""Compute the new value of state where the old one lies, if nobody needs that any more.

Steps that need the old value come first: what computes the new one is put behind them if it can.
"""

from __future__ import annotations

from afterglow.instr import Buffer, Copy, Instr, Program, Region
from afterglow.instr.overlap import overlap, same_place
from afterglow.memory.sharing import replaceable_operands
from afterglow.memory.uses import Uses


def update_in_place(program: Program) -> int:
    """Compute state in place instead of copying it there; say how often. Lifetimes come after."""
    updater = _Updater(program)
    copies = [step for step in program.body if isinstance(step, Copy)]
    updated: set[Instr] = {copy for copy in copies if updater.update(copy)}
    program.body = [step for step in program.body if step not in updated and not _is_idle(step)]
    return len(updated)


def _is_idle(step: Instr) -> bool:
    """Whether a step copies something to where it is."""
    return isinstance(step, Copy) and same_place(step.dest, step.src)


class _Updater:
    """Knows who touches each buffer, and remembers which ones became state."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.uses = Uses(program)
        self.moved: set[Buffer] = set()

    @property
    def steps(self) -> list[Instr]:
        """The program as it is by now."""
        return self.program.body

    def update(self, copy: Copy) -> bool:
        """… out %s …; copy out @state, in %s  ->  … out view of @state …."""
        state, value = copy.dest, copy.src
        if state.region is not Region.STATE or value.region is not Region.ARENA:
            return False
        if state.is_view or value.is_view or value in self.moved:
            return False
        if not self._may_write(state, value, copy):
            return False
        self.moved.add(value)
        views: dict[Buffer, Buffer] = {}
        for index in self.uses.touching(value):
            self.steps[index].substitute(lambda buffer: _moved(buffer, value, state, views))
        self.uses.move(value, state)
        return True

    def _may_write(self, state: Buffer, value: Buffer, copy: Copy) -> bool:
        """Whether a value may be computed where its state lies."""
        first, *others = self.uses.writers[value]
        if self._is_copy(first, value, state):
            return self._may_overwrite(others, state, value, copy)
        return not others and self._may_replace(first, state, value, copy)

    def _is_copy(self, index: int, value: Buffer, state: Buffer) -> bool:
        step = self.steps[index]
        return isinstance(step, Copy) and step.dest is value and step.src is state

    def _may_overwrite(self, writers: list[int], state: Buffer, value: Buffer, copy: Copy) -> bool:
        """Whether parts of a copy of state may be written into the state: nobody needs the old."""
        written = [
            buffer.placed_in(state)
            for index in writers
            for access, buffer in self.steps[index].accesses()
            if access.writes and buffer.root is value
        ]
        read_later = [
            buffer
            for index in self.uses.touching(state)
            if writers and index >= writers[0] and self.steps[index] is not copy
            for _, buffer in self.steps[index].accesses()
            if buffer.root is state
        ]
        return not any(overlap(old, new) for old in read_later for new in written)

    def _may_replace(self, index: int, state: Buffer, value: Buffer, copy: Copy) -> bool:
        """Whether a step may write a value over state: element by element, and nobody follows."""
        step = self.steps[index]
        if not any(access.writes and b is value for access, b in step.accesses()):
            return False
        replaceable = [b for b in replaceable_operands(step, value) if same_place(b, state)]
        read = [b for _, b in step.accesses() if b.root is state]
        if not all(any(b is known for known in replaceable) for b in read):
            return False
        end = self.uses.position[copy]
        last = max((i for i in self.uses.touching(state) if i != end), default=index)
        return last <= index or self._delay(index, last)

    def _delay(self, index: int, last: int) -> bool:
        """Put a step behind a later one, if none of those between has to do with its results."""
        step, between = self.steps[index], self.steps[index + 1 : last + 1]
        clashes = [
            position
            for access, buffer in step.accesses()
            for position in (
                self.uses.touching(buffer.root)
                if access.writes
                else self.uses.writers.get(buffer.root, ())
            )
        ]
        if any(index < position <= last for position in clashes):
            return False
        self.steps[index : last + 1] = [*between, step]
        self.uses = Uses(self.program)
        return True


def _moved(buffer: Buffer, value: Buffer, state: Buffer, views: dict[Buffer, Buffer]) -> Buffer:
    """A value, or a view of it, as a view of the state; any other buffer as it is."""
    if buffer.root is not value:
        return buffer
    if buffer not in views:
        views[buffer] = buffer.placed_in(state)
    return views[buffer]
