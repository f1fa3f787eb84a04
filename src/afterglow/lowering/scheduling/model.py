"""The problem that a function poses, read off the instructions that it becomes.

The function is selected as it stands, and copies are removed as they will be later. What is left
says which buffers each node touches: a reshape, a slice or a concatenation that only renames memory
touches none, inputs and outputs lie outside, and parts of a concatenation share its buffer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from afterglow.graph import Function, Node
from afterglow.graph.order import producers
from afterglow.instr import Buffer, Copy, OpInstr, Program
from afterglow.lowering.scheduling.kernels import (
    costs_nothing,
    is_anchor,
    passes,
    touched,
    yielded,
)
from afterglow.lowering.scheduling.problem import Problem, Step
from afterglow.lowering.select import Selection

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
            waiting = [] if node in order else [node]
            while waiting:
                missing = [p for p in producers(waiting[-1]) if p not in order]
                if missing:
                    waiting.append(missing[0])
                else:
                    order[waiting.pop()] = None
        return list(order)


def model_of(function: Function, tidy: Tidy) -> Model:
    """The problem of ordering the nodes of a function."""
    return _Modeller(function, tidy).run()


class _Modeller:
    """Turns nodes into steps, in their order."""

    def __init__(self, function: Function, tidy: Tidy) -> None:
        self.function = function
        selection = Selection(function)
        program = selection.run()
        tidy(program)
        left = {step: None for step in program.body if isinstance(step, (OpInstr, Copy))}
        self.work = {n: [s for s in made if s in left] for n, made in selection.made.items()}
        owned = {step for work in self.work.values() for step in work}
        self.at_end = [step for step in left if step not in owned]
        self.touching = Counter(b for work in self.work.values() for b in touched(*work))
        self.buffers = {buffer: number for number, buffer in enumerate(self.touching)}
        self.anchored: set[Node] = set()
        self.numbers: dict[Node, int] = {}
        self.steps: list[Step] = []

    def run(self) -> Model:
        for node in self.function.nodes:
            self._add(node)
        sizes = tuple(buffer.type.nbytes for buffer in self.buffers)
        kept = frozenset(self.buffers[b] for b in touched(*self.at_end) if b in self.buffers)
        problem = Problem(sizes, tuple(self.steps), kept)
        return Model(problem, tuple(self.numbers), self.function)

    def _add(self, node: Node) -> None:
        """A node is a step unless it has nothing to do with memory or with other steps."""
        work = self.work[node]
        touches = tuple(self.buffers[buffer] for buffer in touched(*work))
        needs = [producer for producer in producers(node) if producer in self.numbers]
        if not touches and not needs:
            return
        joins = [p for p in needs if not touches or self._joins(p, node, alone=len(needs) == 1)]
        anchor = any(isinstance(step, OpInstr) and is_anchor(step) for step in work)
        if anchor or not self.anchored.isdisjoint(joins):
            self.anchored.add(node)
        step = Step(
            touches,
            needs=tuple(self.numbers[p] for p in needs),
            joins=frozenset(self.numbers[p] for p in joins),
            yields=tuple(self.buffers[buffer] for step in work for buffer in yielded(step)),
        )
        self.numbers[node] = len(self.steps)
        self.steps.append(step)

    def _joins(self, producer: Node, node: Node, *, alone: bool) -> bool:
        """Whether a node is the only one to read a result, and forms one kernel with its producer.

        If it needs other nodes too, running it as soon as it can must never cost memory.
        """
        match self.work[producer], self.work[node]:
            case [OpInstr() as first], [OpInstr() as second]:
                anchored = producer in self.anchored
                return any(
                    passes(first, second, buffer, anchored=anchored)
                    and (alone or costs_nothing(second, buffer))
                    for buffer in first.outs
                    if buffer in second.ins and self._is_private(buffer)
                )
        return False

    def _is_private(self, buffer: Buffer) -> bool:
        """Whether it is a whole buffer that only its producer and one reader touch."""
        return not buffer.is_view and self.touching[buffer] == 2
