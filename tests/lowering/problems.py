"""Random scheduling problems, and what they cost by definition."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Sequence

from hypothesis import strategies as st

from afterglow.lowering.scheduling.problem import Problem, Step


def problems(fewest: int, most: int) -> st.SearchStrategy[Problem]:
    """Problems with so many steps; a seed draws faster, and shrinks well enough."""
    seeds = st.integers(0, 2**32)
    return st.builds(random_problem, seeds, st.integers(fewest, most))


def random_problem(seed: int, count: int, reach: int | None = None) -> Problem:
    """Steps that make a tensor each, of what up to `reach` steps before them made.

    Some tensors share a buffer, as the parts of a concatenation do; some steps work in place, and
    some form one kernel with what they read.
    """
    rng = random.Random(seed)
    reach = reach or rng.randint(1, 8)
    shares, overwrites, stacks = (rng.choice([0.0, 0.3, 0.9]) for _ in range(3))
    needs = [_chosen(rng, range(max(0, i - reach), i)) for i in range(count)]
    made: list[int] = []
    sizes: list[int] = []
    for _ in range(count):
        if made and rng.random() < shares / 3:
            made.append(rng.choice(made[-reach:]))
        else:
            made.append(len(sizes))
            sizes.append(rng.randint(0, 40))
    uses = Counter(need for of in needs for need in of)
    makers = Counter(made)
    steps = []
    for i in range(count):
        own = [p for p in needs[i] if makers[made[p]] == 1 and made[p] != made[i]]
        yields = [made[p] for p in own if rng.random() < overwrites]
        joins = [p for p in own if uses[p] == 1 and rng.random() < stacks]
        if len(needs[i]) > 1:  # then only what can never cost memory joins
            fits = [p for p in joins if made[p] in yields and sizes[made[i]] <= sizes[made[p]]]
            joins = fits if makers[made[i]] == 1 else []
        touches = dict.fromkeys([*(made[p] for p in needs[i]), made[i]])
        steps.append(Step(tuple(touches), needs[i], frozenset(joins), tuple(yields)))
    live_out = frozenset(buffer for buffer in range(len(sizes)) if rng.random() < 0.05)
    return Problem(tuple(sizes), tuple(steps), live_out)


def _chosen(rng: random.Random, steps: Sequence[int]) -> tuple[int, ...]:
    return tuple(sorted(rng.sample(steps, min(len(steps), rng.choice([0, 1, 1, 2, 2, 3])))))


def all_orders(problem: Problem) -> Iterator[list[int]]:
    """Every order in which each step follows what it needs."""

    def extend(order: list[int]) -> Iterator[list[int]]:
        if len(order) == len(problem.steps):
            yield order
        for number, step in enumerate(problem.steps):
            if number not in order and {*step.needs} <= {*order}:
                yield from extend([*order, number])

    return extend([])


def some_order(problem: Problem, seed: int) -> list[int]:
    """One of them, at random."""
    rng = random.Random(seed)
    order: dict[int, None] = {}
    while len(order) < len(problem.steps):
        ready = [
            number
            for number, step in enumerate(problem.steps)
            if number not in order and {*step.needs} <= {*order}
        ]
        order[rng.choice(ready)] = None
    return list(order)


def peak_by_definition(problem: Problem, order: Sequence[int]) -> int:
    """The most bytes live at once, reckoned anew for each step."""
    peak = 0
    done: list[int] = []
    for number in order:
        if number not in done:
            stack = stack_by_definition(problem, done, number)
            peak = max(peak, bytes_by_definition(problem, done, stack))
            done += stack
    return peak


def stack_by_definition(problem: Problem, done: Sequence[int], first: int) -> list[int]:
    """A step with all that join it: they can run as soon as the member that they join has run."""
    stack = [first]
    for member in stack:
        for number, step in enumerate(problem.steps):
            before = {*done, *stack[: stack.index(member) + 1]}
            is_new = number not in stack and number not in done and member in step.needs
            if is_new and {*step.needs} <= before and member in step.joins:
                stack.append(number)
    return stack


def bytes_by_definition(problem: Problem, done: Sequence[int], stack: Sequence[int]) -> int:
    """What is live while a stack runs: what was and what it makes, except in place or inside."""

    def touching(buffer: int) -> list[int]:
        return [number for number, step in enumerate(problem.steps) if buffer in step.touches]

    def is_live_after(buffer: int, steps: Sequence[int]) -> bool:
        started = any(number in steps for number in touching(buffer))
        ended = buffer not in problem.live_out and {*touching(buffer)} <= {*steps}
        return started and not ended

    buffers = range(len(problem.sizes))
    before = [b for b in buffers if is_live_after(b, done)]
    touched = {b for number in stack for b in problem.steps[number].touches}
    inside = {b for b in touched if len(touching(b)) > 1 and {*touching(b)} <= {*stack}}
    inside -= problem.live_out
    made = sorted(b for b in touched - inside if b not in before)
    rooms = [b for number in stack for b in problem.steps[number].yields]
    for room in rooms:
        last_touch = [number for number in touching(room) if number not in done]
        if room in before and room not in problem.live_out and len(last_touch) == 1:
            fitting = [b for b in made if problem.sizes[b] <= problem.sizes[room]]
            if fitting:
                made.remove(max(fitting, key=lambda b: problem.sizes[b]))
    return sum(problem.sizes[b] for b in (*before, *made))
