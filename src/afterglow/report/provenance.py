"""Which instructions of a program compute which nodes of the model, and which nodes need none."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from afterglow.instr import Instr, Program, ops_of, origins_of
from afterglow.support.lazy_dataclass import dataclass


@dataclass(frozen=True)
class Provenance:
    """The nodes of a model in the program that was made of it."""

    steps: Mapping[str, tuple[int, ...]]
    """The positions in the program's body of the instructions that compute each node.

    A node in the body of a loop or branch is computed by the instruction of that loop or branch.
    """
    without_code: tuple[str, ...]
    """The nodes that no instruction computes: folded, removed, or views of memory."""


def provenance(nodes: Iterable[str], program: Program) -> Provenance:
    """Find the model's `nodes`, by name, in a program."""
    steps: dict[str, list[int]] = {name: [] for name in nodes}
    for place, step in enumerate(program.body):
        for origin in dict.fromkeys(_origins_inside(step)):
            steps.setdefault(origin, []).append(place)
    return Provenance(
        {name: tuple(places) for name, places in steps.items() if places},
        tuple(name for name, places in steps.items() if not places),
    )


def _origins_inside(step: Instr) -> Iterator[str]:
    """The origins of an instruction, and of those in bodies of loops and branches."""
    yield from origins_of(step)
    for op in ops_of(step):
        for body in op.bodies:
            for inner in body.body:
                yield from _origins_inside(inner)
