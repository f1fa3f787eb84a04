"""The pass that lets a training step compute values again, as far as asked for or needed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from typing import TypeAlias

from afterglow.graph import Function, Module, Node, Value
from afterglow.lowering.recompute.forward import Cost, Forward
from afterglow.lowering.recompute.rewrite import compute_again
from afterglow.lowering.recompute.search import choices
from afterglow.lowering.recompute.segments import narrow_segments, segments_at
from afterglow.passes import Pass
from afterglow.support.errors import UnsupportedError, UsageError
from afterglow.support.lazy_dataclass import dataclass
from afterglow.support.patterns import fits

Checkpoint: TypeAlias = "int | str | tuple[str, ...]"
"""What is kept: a number of segments that keep their ends, names of nodes, or `auto` for least."""
AUTO = "auto"
ATTEMPTS = 6
"""How often a choice is planned to find out whether it fits a limit."""
LARGEST = 2**62
"""More bytes than any arena has."""


@dataclass(frozen=True)
class Planning:
    """What the pass asks the layers above."""

    cost: Cost
    schedule: Callable[[Function, Mapping[Node, Node]], object]
    """Puts nodes in an order of low peak memory, some of them after others."""
    arena: Callable[[Function], int]
    """The bytes that a scheduled function takes."""


class Recompute(Pass):
    """Computes values of the forward pass again in the backward pass instead of keeping them.

    With `checkpoint`, all but what that says; with `budget` as little as fits so many bytes. What
    computes them are the same ops on the same operands, so results are the same to the bit.
    """

    name = "recompute"

    def __init__(
        self, planning: Planning, checkpoint: Checkpoint | None = None, budget: int | None = None
    ) -> None:
        self.planning = planning
        self.checkpoint = checkpoint
        self.budget = budget

    def run(self, function: Function) -> bool:
        """See the class; only a main function that updates state has a backward pass."""
        if function is not function.module.main or not function.updates:
            return False
        forward = Forward(function)
        if not forward.read_later:
            return False
        kept = self._fitting(forward) if self.checkpoint is None else self._asked(forward)
        return kept is not None and self._apply(function, kept)

    def _apply(self, function: Function, kept: Set[str]) -> bool:
        """Keep values by name, and compute the others again; say whether there are any."""
        forward = Forward(function)
        values = {value for value in forward.results() if value.name in kept}
        after = compute_again(forward, values)
        if after:
            self.planning.schedule(function, after)
        return bool(after)

    def _asked(self, forward: Forward) -> Set[str]:
        """The values to keep by what the user said."""
        asked = self.checkpoint
        if asked == AUTO:
            return _names(choices(forward, self.planning.cost)[-1].kept())
        if isinstance(asked, int):
            segments = narrow_segments(forward).merged(max(asked, 1))
        else:
            patterns = [asked] if isinstance(asked, str) else [*(asked or ())]
            segments = segments_at(forward, _matching(forward, patterns))
        return _names(segments.kept(frozenset(range(segments.count - 1))))

    def _fitting(self, forward: Forward) -> Set[str] | None:
        """The values to keep so that the arena fits; None if all can be, or that does not help."""
        assert self.budget is not None, "there is nothing else to go by"
        whole = self.planning.arena(forward.function)
        if whole <= self.budget:
            return None
        found = choices(forward, self.planning.cost)
        number, least = 0, LARGEST
        for _ in range(ATTEMPTS):
            kept = _names(found[number].kept())
            arena = self._arena_with(forward.function, kept)
            if arena <= self.budget:
                return kept
            least = min(least, arena)
            if number == len(found) - 1:
                break
            limit = self.budget - (arena - found[number].held)
            later = range(number + 1, len(found))
            number = next((n for n in later if found[n].held <= limit), len(found) - 1)
        if least >= whole:
            return None
        raise _refusal(forward.function, self.budget, least)

    def _arena_with(self, function: Function, kept: Set[str]) -> int:
        """The arena if only given values are kept."""
        copy = function.clone("main", Module())
        self._apply(copy, kept)
        return self.planning.arena(copy)


def _names(values: Iterable[Value]) -> Set[str]:
    return {value.name for value in values}


def _matching(forward: Forward, patterns: Sequence[str]) -> list[Node]:
    """The nodes of the forward pass that patterns name, by the model's names or their own."""
    found: list[Node] = []
    for pattern in patterns:
        names = [(node, (*node.origins, node.name)) for node in forward.nodes]
        hits = [node for node, own in names if any(fits(name, pattern) for name in own)]
        if not hits:
            some = dict.fromkeys(node.origin or node.name for node in forward.nodes)
            listed = ", ".join([*some][:8]) + (", …" if len(some) > 8 else "")
            raise UsageError(
                f"no node of the forward pass matches checkpoint {pattern!r}",
                help=f"there are {listed}",
            )
        last = {node.origin or node.name: node for node in hits}
        found.extend(last.values())
    return found


def _refusal(function: Function, budget: int, least: int) -> UnsupportedError:
    return UnsupportedError(
        f"the arena of a training step does not fit {budget:,} bytes, but would fit {least:,}",
        where=f"in function @{function.name}, with all segments computed again",
        help=f"allow {least:,} bytes, or give batches of fewer samples",
    )
