"""What users say about partitions."""

from __future__ import annotations

import pytest

import afterglow.ops  # noqa: F401  fills the catalogue
from afterglow.graph import parse_module
from afterglow.partition.config import NodeFacts, PartitionConfig
from afterglow.support.errors import UsageError

MAIN = parse_module("""\
func @main(%x: f32[2, 2]) {
  %a = matmul(%x, %x) : f32[2, 2] from "block1/MatMul"
  %b = relu(%a) : f32[2, 2] from "block1/Relu"
  %c = matmul(%b, %x) : f32[2, 2] from "block2/MatMul"
  return %c
}
""").main
DEVICES = ("cpu:0", "cpu:1")


def placed(config: PartitionConfig) -> dict[str, str]:
    return {node.name: device for node, device in config.devices_of(MAIN, DEVICES).items()}


def test_nodes_are_placed_by_patterns_and_ops_of_which_the_first_counts() -> None:
    config = PartitionConfig(placement={"block1/*": "cpu:0", "matmul": "cpu:1"})
    assert placed(config) == {"a": "cpu:0", "b": "cpu:0", "c": "cpu:1"}
    assert config.is_data


def test_nodes_are_placed_by_a_function_of_facts() -> None:
    seen = []

    def choose(facts: NodeFacts) -> str | None:
        seen.append(facts)
        return "cpu:1" if facts.op == "relu" else None

    config = PartitionConfig(placement=choose)
    assert placed(config) == {"b": "cpu:1"}
    assert seen[0] == NodeFacts("block1/MatMul", "matmul", ((2, 2), (2, 2)), ((2, 2),))
    assert not config.is_data


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            {"objective": "speed"},
            "error: a partition cannot have the objective 'speed'\n"
            "  help: there are latency, throughput",
        ),
        (
            {"placement": "cpu"},
            "error: placement must be a mapping or a function, got 'cpu'\n"
            '  help: write placement={"conv1*": "cpu:0", "matmul": "cpu:1"}',
        ),
        (
            {"placement": {3: "cpu"}},
            "error: placement names nodes by texts, got 3\n"
            '  help: write placement={"conv1*": "cpu:0", "matmul": "cpu:1"}',
        ),
        (
            {"placement": {"matmul": "cpu"}, "split_batch": True},
            "error: a batch that is split over devices cannot have a placement besides\n"
            "  help: leave out split_batch or placement",
        ),
        (
            {"placement": {"block3/*": "cpu:0"}},
            "error: no node or op is called 'block3/*'\n  help: there are block1/Relu …",
        ),
        (
            {"placement": {"matmul": "gpu"}},
            "error: node 'block1/MatMul' is placed on 'gpu', which is not among the devices\n"
            "  help: there are cpu:0, cpu:1",
        ),
    ],
)
def test_what_cannot_be_is_refused(given: dict, message: str) -> None:
    with pytest.raises(UsageError) as error:
        placed(PartitionConfig(**given))
    assert str(error.value) == message
