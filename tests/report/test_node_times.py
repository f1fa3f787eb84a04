"""Times of instructions, added up by the nodes of the model."""

from __future__ import annotations

from afterglow.report.node_times import node_times
from afterglow.report.profile import StepTime


def step(seconds: float, kernel: str, *nodes: str) -> StepTime:
    return StepTime(0, kernel, "", nodes, (), (), seconds, 0.0, 0, on_host=False)


def test_the_nodes_of_a_kernel_are_one_row_and_the_slowest_comes_first() -> None:
    steps = [step(1.0, "conv", "conv1", "relu1"), step(3.0, "matmul", "dense")]
    assert [each.nodes for each in node_times(steps)] == [("dense",), ("conv1", "relu1")]


def test_what_prepares_a_fused_kernel_counts_for_it() -> None:
    steps = [step(1.0, "fill", "conv1"), step(2.0, "conv", "conv1", "relu1")]
    (only,) = node_times(steps)
    assert (only.seconds, only.kernels) == (3.0, ("fill", "conv"))


def test_groups_that_merely_overlap_stay_apart() -> None:
    steps = [step(1.0, "a", "shared", "left"), step(2.0, "b", "shared", "right")]
    assert len(node_times(steps)) == 2


def test_steps_of_no_node_are_one_row() -> None:
    steps = [step(1.0, "copy"), step(1.0, "copy"), step(1.0, "exp", "y")]
    assert [each.nodes for each in node_times(steps)] == [(), ("y",)]
