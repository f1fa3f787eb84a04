"""How a model is partitioned: what users choose, as a frozen value."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from typing import TypeAlias

from afterglow.graph import Function, Node
from afterglow.quantization.named_nodes import check_named, is_named
from afterglow.support.errors import UsageError
from afterglow.support.lazy_dataclass import dataclass

LATENCY, THROUGHPUT = "latency", "throughput"


@dataclass(frozen=True)
class NodeFacts:
    """What a placement function is told about a node."""

    name: str
    """Its name in the model."""
    op: str
    """Its op, as in the op reference: "conv", "matmul", "relu"."""
    inputs: tuple[tuple[int, ...], ...]
    """The shapes of what it reads; of a range of extents, the largest."""
    outputs: tuple[tuple[int, ...], ...]
    """The shapes of its results."""


Chooser: TypeAlias = Callable[[NodeFacts], "str | None"]
"""A function from a node to the name of its device; None leaves it to the partitioner."""


@dataclass(frozen=True)
class PartitionConfig:
    """How a model is partitioned over devices.

    Args:
        objective: "latency", for the shortest time of one run, or "throughput", for most runs per
            second: then the model is a pipeline, in which devices work on different requests.
        placement: devices of nodes that are not for the partitioner to choose: by the name of a
            node in the model, by a pattern with stars, or by an op, of which the first that fits
            counts; or a function of `NodeFacts` that returns the name of a device, or None.
        split_batch: whether each device computes all of the model for some items of the batch.
    """

    objective: str = LATENCY
    placement: Mapping[str, str] | Chooser = field(default_factory=dict)
    split_batch: bool = False

    def __post_init__(self) -> None:
        if self.objective not in (LATENCY, THROUGHPUT):
            raise UsageError(
                f"a partition cannot have the objective {self.objective!r}",
                help=f"there are {LATENCY}, {THROUGHPUT}",
            )
        if not callable(self.placement) and not isinstance(self.placement, Mapping):
            raise UsageError(
                f"placement must be a mapping or a function, got {self.placement!r}",
                help='write placement={"conv1*": "cpu:0", "matmul": "cpu:1"}',
            )
        if not callable(self.placement):
            _check_patterns(self.placement)
        if self.split_batch and (callable(self.placement) or self.placement):
            raise UsageError(
                "a batch that is split over devices cannot have a placement besides",
                help="leave out split_batch or placement",
            )

    @property
    def is_data(self) -> bool:
        """Whether its text says everything about it: it holds no function."""
        return not callable(self.placement)

    def devices_of(self, function: Function, devices: Sequence[str]) -> dict[Node, str]:
        """The nodes whose devices are given, with these; names that do not exist are errors."""
        if callable(self.placement):
            choose = self.placement
            chosen = ((node, choose(facts_of(node))) for node in function.nodes)
            found = {node: device for node, device in chosen if device is not None}
        else:
            found = _named(self.placement, [*function.nodes])
        for node, device in found.items():
            if device not in devices:
                raise _unknown(device, devices, node)
        return found


def facts_of(node: Node) -> NodeFacts:
    """What users may know about a node."""
    return NodeFacts(
        node.origin or node.name,
        node.op.mnemonic,
        tuple(tuple(map(int, value.type.shape)) for value in node.given),
        tuple(tuple(map(int, value.type.shape)) for value in node.results),
    )


def _check_patterns(placement: Mapping[str, str]) -> None:
    wrong = [pattern for pattern in placement if not isinstance(pattern, str)]
    if wrong:
        raise UsageError(
            f"placement names nodes by texts, got {wrong[0]!r}",
            help='write placement={"conv1*": "cpu:0", "matmul": "cpu:1"}',
        )


def _named(placement: Mapping[str, str], nodes: Sequence[Node]) -> dict[Node, str]:
    found: dict[Node, str] = {}
    for pattern, device in placement.items():
        fitting = [n for n in nodes if pattern == n.op.mnemonic or is_named(n, (pattern,))]
        if not fitting:
            check_named((pattern,), nodes, "node or op")
        for node in fitting:
            found.setdefault(node, device)
    return found


def _unknown(device: object, devices: Iterable[str], node: Node) -> UsageError:
    return UsageError(
        f"node {node.origin or node.name!r} is placed on {device!r}, "
        "which is not among the devices",
        help=f"there are {', '.join(devices)}",
    )
