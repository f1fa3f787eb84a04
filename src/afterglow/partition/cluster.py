"""The stages of a model on many machines: which node runs which, and what to expect of that."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

from afterglow.partition.problem import Link
from afterglow.support.errors import UsageError


@dataclass(frozen=True)
class StageCost:
    """What a stage takes on a node of speed 1, and what it passes on."""

    name: str
    seconds: float
    output_bytes: int
    memory: int = 0


@dataclass(frozen=True)
class ClusterNode:
    """A machine: its speed as a multiple of the one that stages were timed on, and its memory."""

    speed: float = 1.0
    memory: float = inf


@dataclass(frozen=True)
class ClusterPlan:
    """Which stage each node runs, by number, and what limits the stages together."""

    stages: tuple[StageCost, ...]
    nodes: tuple[ClusterNode, ...]
    stage_of: tuple[int | None, ...]
    """None for a node that has nothing to do."""

    def replicas(self, stage: int) -> list[int]:
        """The nodes that run a stage."""
        return [node for node, own in enumerate(self.stage_of) if own == stage]

    def rate(self, stage: int) -> float:
        """Requests a second that all replicas of a stage compute at most."""
        speed = sum(self.nodes[node].speed for node in self.replicas(stage))
        return speed / self.stages[stage].seconds

    @property
    def throughput(self) -> float:
        """Requests a second at most: those of the slowest stage."""
        return min(map(self.rate, range(len(self.stages))))

    def latency(self, link: Link) -> float:
        """Seconds of a request that waits for nothing, on nodes of speed 1."""
        transfers = sum(link.seconds(stage.output_bytes) for stage in self.stages)
        return transfers + sum(stage.seconds for stage in self.stages)


def plan_cluster(stages: Sequence[StageCost], nodes: Sequence[ClusterNode]) -> ClusterPlan:
    """Give each node a stage, so that the slowest stage has as many requests a second as it can.

    The stages that need the most memory choose first, each the slowest node that has room; then
    the fastest node that is left goes to the stage that is the slowest and fits there.
    """
    stage_of: list[int | None] = [None] * len(nodes)
    free = sorted(range(len(nodes)), key=lambda n: (nodes[n].speed, nodes[n].memory))
    for stage in sorted(range(len(stages)), key=lambda s: -stages[s].memory):
        chosen = next((n for n in free if nodes[n].memory >= stages[stage].memory), None)
        if chosen is None:
            raise _no_room(stages, nodes, stage)
        stage_of[chosen] = stage
        free.remove(chosen)
    rates = [nodes[stage_of.index(s)].speed / cost.seconds for s, cost in enumerate(stages)]
    for node in reversed(free):
        fits = [s for s, cost in enumerate(stages) if cost.memory <= nodes[node].memory]
        if fits:
            slowest = min(fits, key=lambda s: rates[s])
            rates[slowest] += nodes[node].speed / stages[slowest].seconds
            stage_of[node] = slowest
    return ClusterPlan(tuple(stages), tuple(nodes), tuple(stage_of))


def _no_room(stages: Sequence[StageCost], nodes: Sequence[ClusterNode], stage: int) -> UsageError:
    largest = max((node.memory for node in nodes), default=0)
    return UsageError(
        f"no node is left for stage {stages[stage].name!r}, which needs "
        f"{stages[stage].memory:,} bytes",
        where=f"{len(stages)} stages, {len(nodes)} nodes, the largest with {largest:,} bytes",
        help="add nodes, or divide the model into smaller stages",
    )
