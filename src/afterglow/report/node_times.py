"""The time of a run by the model's own nodes."""

from __future__ import annotations

from collections.abc import Iterable

from afterglow.graph import Origins
from afterglow.report.profile import StepTime
from afterglow.support.lazy_dataclass import dataclass


@dataclass(frozen=True)
class NodeTime:
    """Nodes of the model that are computed together, and the seconds of their instructions.

    The time of a fused kernel is not divided among its nodes: nothing could measure that.
    """

    nodes: Origins
    """In the order of the model; empty for what belongs to no node."""
    seconds: float
    kernels: tuple[str, ...]


def node_times(steps: Iterable[StepTime]) -> list[NodeTime]:
    """The time of each group of nodes, the slowest first.

    Instructions belong to the smallest group that includes all their nodes: preparing the padding
    of a convolution counts for the fused kernel of that convolution.
    """
    steps = list(steps)
    groups = dict.fromkeys(step.origins for step in steps)
    by_size = sorted(groups, key=len)
    members: dict[Origins, list[StepTime]] = {group: [] for group in groups}
    for step in steps:
        members[_home(step.origins, by_size)].append(step)
    found = (_summed(group, own) for group, own in members.items() if own)
    return sorted(found, key=lambda each: -each.seconds)


def _home(origins: Origins, by_size: list[Origins]) -> Origins:
    """The smallest other group that includes these nodes; itself if there is none."""
    wanted = {*origins}
    larger = (group for group in by_size if len(group) > len(wanted) and wanted <= {*group})
    return next(larger, origins) if wanted else origins


def _summed(group: Origins, steps: list[StepTime]) -> NodeTime:
    kernels = tuple(dict.fromkeys(step.kernel for step in steps))
    return NodeTime(group, sum(step.seconds for step in steps), kernels)
