"""What a function does to memory: which nodes run together, and what is live meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from afterglow.graph import Function, Node, Value
from afterglow.graph.order import producers
from afterglow.instr import Alloc, Buffer, Dealloc, DeclareView, Instr, Program, Region, Stack
from afterglow.lowering.select import Selection, select_instructions
from afterglow.lowering.splitting.region import Pieces, types_of
from afterglow.support.lazy_dataclass import dataclass


@dataclass(frozen=True)
class Memory:
    """How a selected program gets its memory: what the layer above does to it."""

    tidy: Callable[[Program], object]
    """Removes copies and forms stacks: afterwards, each value that needs memory has its own."""
    place: Callable[[Program], int]
    """Lets buffers share memory and places them; returns the size of the arena."""
    place_part: Callable[[Program], int]
    """The same for a part of a function, whose inputs and outputs must be left alone."""

    def arena_of_part(self, part: Function) -> int:
        """The bytes that a part of a function takes, besides what it reads and gives."""
        program = select_instructions(part)
        self.tidy(program)
        return self.place_part(program)


@dataclass(frozen=True)
class _Span:
    """A buffer of the arena, from the first group that touches it to the last."""

    first: int
    last: int
    size: int


class Profile:
    """A function as groups of nodes, in order: each group is one kernel, or a node that is none.

    Only between groups it is cheap to cut the function apart.
    """

    def __init__(self, function: Function, memory: Memory) -> None:
        self.function = function
        self.pieces = Pieces()
        selection = Selection(function)
        program = selection.run()
        memory.tidy(program)
        steps = list(_working(program))
        self.groups = _groups(selection, steps)
        self.spans = list(self._spans(selection, steps))
        self.arena = memory.place(program)
        self.live = self._live(program)
        """The bytes of the arena in use while each group runs."""
        self.entering = [0] * (len(self.groups) + 1)
        """The bytes that groups from a position on need of those before."""
        for span in self.spans:
            for position in range(span.first + 1, span.last + 1):
                self.entering[position] += span.size
        self.work = {n: n.op.work(n.results[0].type, types_of(n)) for n in function.nodes}
        self.last_use = self._last_uses()
        """For each value, the last group that reads it; one more than all for what escapes."""
        self.present: dict[Value, list[int]] = {value: [] for value in self.last_use}
        """For each value, the groups that cannot run unless it is there."""
        for position in sorted({*self.group_of.values()} - {len(self.groups)}):
            for value in self._together(position):
                self.present.setdefault(value, []).append(position)

    def _spans(self, selection: Selection, steps: list[Instr]) -> Iterator[_Span]:
        """The buffers of the arena before they share memory."""
        position = {node: i for i, group in enumerate(self.groups) for node in group}
        owner = {step: position[node] for node, made in selection.made.items() for step in made}
        touching: dict[Buffer, list[int]] = {}
        self.group_of: dict[Instr, int] = {}
        following = len(self.groups)
        for step in reversed(steps):
            following = owner.get(_last_member(step), following)
            self.group_of[step] = following
            for _, buffer in step.accesses():
                if buffer.root.region is Region.ARENA:
                    touching.setdefault(buffer.root, []).append(following)
        for root, groups in touching.items():
            yield _Span(min(groups), max(groups), root.type.nbytes)

    def _last_uses(self) -> dict[Value, int]:
        position = {node: i for i, group in enumerate(self.groups) for node in group}
        last = {
            value: max((position[user] for user in value.users), default=-1)
            for node in position
            for value in node.results
        }
        last.update((value, len(self.groups)) for value in self.function.escaping())
        return last

    def _live(self, program: Program) -> list[int]:
        live = [0] * (len(self.groups) + 1)
        total = 0
        for step in program.body:
            match step:
                case Alloc(buffer):
                    total += buffer.type.nbytes
                case Dealloc(buffer):
                    total -= buffer.type.nbytes
            group = self.group_of.get(step)
            if group is not None:
                live[group] = max(live[group], total)
        return live[:-1]

    def rank(self, position: int) -> int:
        """How many axes there are at most in what a group makes."""
        return max(v.type.rank for node in self.groups[position] for v in node.results)

    def most_bands(self, position: int, axis: int) -> int:
        """How many bands there can be along an axis of what a group makes for later ones."""
        made = (v for node in self.groups[position] for v in node.results)
        shapes = [v.type.shape for v in made if self.last_use[v] > position]
        return min((s[axis] if axis < len(s) else 0 for s in shapes), default=0)

    def _together(self, position: int) -> list[Value]:
        """Values that must be there at once for a group to run: what it makes, what it reads.

        What may be overwritten while it is read does not count.
        """
        group = self.groups[position]
        made = [result for node in group for result in node.results]
        found = [value for value in made if any(user not in group for user in value.users)]
        for node in group:
            if not node.op.elementwise:
                found.extend(v for v in _kept_operands(node) if v not in made)
        return list(dict.fromkeys(found))

    def around(self, first: int, most: int) -> Iterator[tuple[int, int]]:
        """For each of `most` last groups, the bytes held while those from `first` run in bands.

        They read what comes from before them and fill what is needed after them all the time.
        """
        crossing = sorted(
            (span for span in self.spans if span.first < first <= span.last), key=lambda s: -s.last
        )
        both = sum(span.size for span in crossing)
        for last in range(first, min(first + most, len(self.groups))):
            while crossing and crossing[-1].last <= last:
                both -= crossing.pop().size
            yield last, self.entering[first] + self.entering[last + 1] - both


def _kept_operands(node: Node) -> Iterator[Value]:
    """The operands whose memory a result may not take over."""
    names = node.op.operand_names
    for index, operand in enumerate(node.operands):
        if operand is not None and names[min(index, len(names) - 1)] not in node.op.inplace:
            yield operand


def _working(program: Program) -> Iterator[Instr]:
    for step in program.body:
        if not isinstance(step, (Alloc, Dealloc, DeclareView)):
            yield step


def _last_member(step: Instr) -> Instr:
    return step.body[-1] if isinstance(step, Stack) else step


def _groups(selection: Selection, steps: list[Instr]) -> list[tuple[Node, ...]]:
    """Nodes whose instructions run as one; views, which need none, right after what they show."""
    time: dict[Instr, int] = {}
    for index, step in enumerate(steps):
        for member in step.body if isinstance(step, Stack) else (step,):
            time[member] = index
    places: dict[Node, tuple[int, int]] = {}
    for number, (node, made) in enumerate(selection.made.items()):
        own = [time[step] for step in made if step in time]
        before = max((places[producer][0] for producer in producers(node)), default=-1)
        places[node] = (max(own), -1) if own else (before, number)
    groups: dict[tuple[int, int], list[Node]] = {}
    for node, place in places.items():
        groups.setdefault(place, []).append(node)
    return [tuple(group) for _, group in sorted(groups.items(), key=lambda item: item[0])]
