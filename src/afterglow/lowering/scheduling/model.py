"""The problem that a function poses, read off the instructions that it becomes.

The function is selected as it stands, and copies are removed as they will be later. What is left
says which buffers each node touches: a reshape, a slice or a concatenation that only renames memory
touches none, inputs and outputs lie outside, and parts of a concatenation share its buffer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping

from afterglow.graph import Function, Node
from afterglow.graph.order import producers
from afterglow.instr import Buffer, Copy, Instr, OpInstr, Program, Region
from afterglow.instr.stack_rules import StackGroup
from afterglow.instr.tiling import is_anchor
from afterglow.lowering.scheduling.kernels import (
    costs_nothing,
    on_changing_states,
    overwrites,
    passes,
    touched,
    yielded,
)
from afterglow.lowering.scheduling.late import Late, with_late_steps
from afterglow.lowering.scheduling.problem import Problem, Step
from afterglow.lowering.select import Selection
from afterglow.support.lazy_dataclass import dataclass

Tidy = Callable[[Program], object]
"""What is done to a program before stacks are formed and buffers shared: it removes copies."""


@dataclass(frozen=True)
class Model:
    """A problem, and the nodes that its steps are."""

    problem: Problem
    nodes: tuple[Node, ...]
    """The node of each step."""
    function: Function

    def order(self, steps: Iterable[int]) -> list[Node]:
        """All nodes of the function, those of the steps in the order given.

        The others, views of inputs and the like, come just before they are needed.
        """
        order: dict[Node, None] = {}
        for node in (*(self.nodes[step] for step in steps), *self.function.nodes):
            waiting = [node]
            while waiting:
                missing = [p for p in producers(waiting[-1]) if p not in order]
                waiting.extend(missing)
                if not missing:
                    order[waiting.pop()] = None
        return list(order)


def model_of(function: Function, tidy: Tidy, after: Mapping[Node, Node] | None = None) -> Model:
    """The problem of ordering the nodes of a function, some `after` others in any case."""
    return _Modeller(function, tidy).run(after or {})


@dataclass(frozen=True)
class _Part:
    """What a step will be, as sets in order."""

    touches: dict[Buffer, None]
    needs: dict[Node, None]
    yields: dict[Buffer, None]

    def include(self, other: _Part, made: Buffer, *, with_yields: bool) -> None:
        """Do the work of another one as well; what it made stays inside."""
        self.touches.update(other.touches)
        self.needs.update(other.needs)
        self.yields.update(other.yields if with_yields else {})
        self.touches.pop(made)
        self.yields.pop(made, None)


class _Modeller:
    """Turns nodes into steps, in their order."""

    def __init__(self, function: Function, tidy: Tidy) -> None:
        self.function = function
        self.work: dict[Node, list[Instr]] = {node: [] for node in function.nodes}
        """What is left of each node; what was put in comes with the node before which it stands."""
        self.kernels: dict[Node, OpInstr] = {}
        """The nodes of which one instruction is left, and it carries an op."""
        self.on_states: dict[Instr, Node] = {}
        """What touches states that change, in the order in which it may run."""
        self.at_end = self._assign(tidy)
        self.touching = Counter(b for work in self.work.values() for b in touched(*work))
        self.buffers = {buffer: number for number, buffer in enumerate(self.touching)}
        self.sizes = tuple(buffer.type.nbytes for buffer in self.buffers)
        self.groups: dict[Node, StackGroup] = {}
        """The instructions that will be one kernel up to a node."""
        self.waiting: dict[Node, _Part] = {}
        self.numbers: dict[Node, int] = {}
        self.inside: dict[Node, Node] = {}
        """The node that one which waited runs with."""
        self.steps: list[Step] = []

    def _assign(self, tidy: Tidy) -> list[Instr]:
        """Select the function, tidy up, and give each node what is left; return what comes last."""
        selection = Selection(self.function)
        program = selection.run()
        owner = {step: node for node, made in selection.made.items() for step in made}
        tidy(program)
        own: dict[Node, list[Instr]] = {}
        waiting: list[Instr] = []
        for step in program.body:
            if not isinstance(step, (OpInstr, Copy)):
                continue
            waiting.append(step)
            if step in owner:
                own.setdefault(owner[step], []).append(step)
                self.work[owner[step]] += waiting
                waiting = []
        for node, steps in own.items():
            if len(steps) == 1 and isinstance(steps[0], OpInstr):
                self.kernels[node] = steps[0]
        nodes = {step: node for node, steps in self.work.items() for step in steps}
        changing = on_changing_states(program)
        self.on_states = {step: nodes[step] for step in changing if step in nodes}
        return waiting

    def run(self, after: Mapping[Node, Node]) -> Model:
        for node in self.function.nodes:
            self._add(node)
        live_out = frozenset(self.buffers[b] for b in touched(*self.at_end) if b in self.buffers)
        late = [*self._state_changes(), *self._late(after)]
        order, steps = with_late_steps(self.steps, late)
        nodes = tuple(self.numbers)
        ordered = tuple(nodes[number] for number in order)
        return Model(Problem(self.sizes, steps, live_out), ordered, self.function)

    def _late(self, after: Mapping[Node, Node]) -> Iterator[Late]:
        """The steps of nodes that come after others."""
        for node, other in after.items():
            step, before = self._number(node), self._number(other)
            if step is not None and before is not None:
                yield Late(step, frozenset([before]))

    def _number(self, node: Node) -> int | None:
        """The step that a node runs in, if any."""
        return self.numbers.get(self._outermost(node))

    def _outermost(self, node: Node) -> Node:
        """The node that one runs with."""
        while node in self.inside:
            node = self.inside[node]
        return node

    def _is_on_state(self, node: Node) -> bool:
        """Whether a node, or one that runs with it, touches state that changes."""
        return any(self._outermost(other) is node for other in self.on_states.values())

    def _state_changes(self) -> Iterator[Late]:
        """For each step that writes a state, those that touch the state before it."""
        touching: dict[Buffer, set[int]] = {}
        for step, node in self.on_states.items():
            number = self._number(node)
            assert number is not None, "what touches such a state is a step"
            for access, state in step.accesses():
                if state.root.region is Region.STATE:
                    before = touching.setdefault(state.root, set())
                    if access.writes:
                        yield Late(number, frozenset(before))
                        for maker in self._makers(self.steps[number]):
                            yield Late(maker, frozenset(before))
                    before.add(number)

    def _makers(self, step: Step) -> Iterator[int]:
        """Steps that one forms a kernel with, whose results are large beside what they read.

        If they wait until that can run, their results need no memory.
        """
        for number in step.joins:
            touched = {*self.steps[number].touches}
            made = [self.sizes[buffer] for buffer in touched & {*step.touches}]
            read = [self.sizes[buffer] for buffer in touched - {*step.touches}]
            if made and max(read, default=0) <= max(made):
                yield number

    def _add(self, node: Node) -> None:
        """Make a step of a node, with what waited for it, unless it waits for another one itself.

        It is none if it has nothing to do with memory or with other steps.
        """
        part = self._part(node)
        if not part.touches and not part.needs and not self._is_on_state(node):
            return
        self._group(node, [p for p in producers(node) if p in self.waiting])
        joins = [p for p in part.needs if not part.touches or self._joins(p, node, part)]
        if not joins and self._waits(node):
            part.yields.update((b, None) for b in yielded(self.kernels[node], inside=True))
            self.waiting[node] = part
            return
        self._group(node, joins)
        self.numbers[node] = len(self.steps)
        self.steps.append(
            Step(
                touches=tuple(self.buffers[buffer] for buffer in part.touches),
                needs=tuple(self.numbers[p] for p in part.needs),
                joins=frozenset(self.numbers[p] for p in joins),
                yields=tuple(self.buffers[buffer] for buffer in part.yields),
            )
        )

    def _group(self, node: Node, joined: Iterable[Node]) -> None:
        """Note that the instruction of a node forms one kernel with some of its producers."""
        if node not in self.kernels:
            return
        earlier = [self.groups[p].members for p in joined if p in self.groups]
        own = self.groups[node].members if node in self.groups else (self.kernels[node],)
        members = dict.fromkeys(step for group in (*earlier, own) for step in group)
        self.groups[node] = StackGroup(tuple(members))

    def _part(self, node: Node) -> _Part:
        """A node together with the producers that wait for it."""
        work = self.work[node]
        part = _Part(
            dict.fromkeys(touched(*work)),
            dict.fromkeys(p for p in producers(node) if p in self.numbers),
            dict.fromkeys(buffer for step in work for buffer in yielded(step)),
        )
        for producer in producers(node):
            if producer in self.waiting:
                self.inside[producer] = node
                made = self.kernels[producer].outs[0]
                keeps_place = overwrites(self.kernels[node], made)
                part.include(self.waiting[producer], made, with_yields=keeps_place)
        return part

    def _waits(self, node: Node) -> bool:
        """Whether a node is point by point, and its only reader will make its result as it reads.

        Then it has no place of its own, and what it reads lives until its reader runs.
        """
        first = self.kernels.get(node)
        users = [user for result in node.results for user in result.users]
        second = self.kernels.get(users[0]) if len(users) == 1 else None
        if first is None or second is None or is_anchor(first):
            return False
        buffer = first.outs[0]
        direct = buffer in second.ins and self._is_private(buffer)
        return direct and passes(self.groups[node], StackGroup((second,)), buffer)

    def _joins(self, producer: Node, node: Node, part: _Part) -> bool:
        """Whether a node is the only one to read a result, and forms one kernel with its producer.

        If it needs other nodes too, running it as soon as it can must never cost memory.
        """
        first, second = self.kernels.get(producer), self.kernels.get(node)
        if first is None or second is None:
            return False
        alone = len(part.needs) == 1
        return any(
            passes(self.groups[producer], self.groups[node], buffer)
            and (alone or costs_nothing(second, buffer))
            for buffer in first.outs
            if buffer in second.ins and self._is_private(buffer)
        )

    def _is_private(self, buffer: Buffer) -> bool:
        """Whether it is a whole buffer that only its producer and one reader touch."""
        return not buffer.is_view and self.touching[buffer] == 2
