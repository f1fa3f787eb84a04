"""Plans: their text, and why tasks are where they are."""

from __future__ import annotations

from dataclasses import replace

import pytest

import afterglow.ops  # noqa: F401  fills the catalogue
from afterglow.graph import Module, parse_module
from afterglow.partition.config import PartitionConfig
from afterglow.partition.picture import plan_dot, plan_svg
from afterglow.partition.place import place
from afterglow.partition.plan import PartitionPlan, parse_plan, print_plan
from afterglow.partition.pricing import DeviceCosts, price_tasks
from afterglow.partition.problem import Link
from afterglow.support.errors import ParseError, UnsupportedError

MODULE = parse_module("""\
const @w : f32[2, 2] = [1.0, 2.0, 3.0, 4.0]
func @main(%x: f32[2, 2]) {
  %a = softmax(%x) {axis = -1} : f32[2, 2] from "soft"
  %b = matmul(%a, @w) : f32[2, 2] from "first product"
  %c = relu(%b) : f32[2, 2] from "act"
  %d = reduce_sum(%c) {axes = (1,), keepdims = false} : f32[2] from "sum"
  %y = matmul(%b, %c) : f32[2, 2] from "last"
  return %d, %y
}
""")
TIMES = {
    "softmax": (3, None),
    "matmul": (9, 1),
    "relu": (1, 1),
    "reduce_sum": (1, 2),
    "reduce_max": (1, 3),
}


def price(device: str, module: Module) -> float:
    """Microseconds by device, from the table."""
    times = [TIMES[node.op.mnemonic][device == "chip"] for node in module.main.nodes]
    if None in times:
        raise UnsupportedError("no kernel for softmax")
    return 1e-6 * sum(times)


def plan(
    objective: str = "latency",
    memory: int | None = None,
    module: Module = MODULE,
    names: tuple[str, str] = ("cpu", "chip"),
    **placement: str,
) -> PartitionPlan:
    way = Link(2e-6, 1e9)
    ways = {(0, 1): way, (1, 0): way}
    computes = names[0] == "cpu"
    costs = DeviceCosts(names, price, ways, (None, memory), host_computes=computes)
    given = PartitionConfig(placement=placement).devices_of(module.main, costs.names)
    priced = price_tasks(module, costs, given)
    return PartitionPlan.of(priced, place(priced.problem, objective), objective)


def reasons(found: PartitionPlan) -> dict[str, str]:
    return {task.name: f"{task.device}: {task.reason}" for task in found.tasks}


def test_the_text_says_what_is_where_and_why() -> None:
    assert (
        str(plan())
        == """\
partition for latency: 13.048 µs a run, 7.032 µs a request in a pipeline
device cpu: 2 tasks, 4.000 µs, 40 B, alone 23.000 µs
device chip: 2 tasks, 3.000 µs, 64 B, cannot run alone
task soft on cpu: 3.000 µs
  nodes soft
  reads x
  gives a
  why: no other device can compute it
task "first product" on chip: 2.000 µs
  nodes "first product", act
  reads a
  gives b, c
  why: 8.0 µs faster than on cpu, transfers included
task sum on cpu: 1.000 µs
  nodes sum
  reads c
  gives d
  why: 1.0 µs faster than on chip, transfers included
task last on chip: 1.000 µs
  nodes last
  reads b, c
  gives y
  why: 8.0 µs faster than on cpu, transfers included
transfer a from cpu to chip: 16 B, 2.016 µs
transfer c from chip to cpu: 16 B, 2.016 µs
transfer y from chip to cpu: 16 B, 2.016 µs
"""
    )


@pytest.mark.parametrize(
    "found",
    [plan(), plan("throughput"), plan(memory=64, relu="cpu"), plan(names=("host memory", "cpu"))],
)
def test_the_text_parses_back(found: PartitionPlan) -> None:
    assert parse_plan(print_plan(found)) == found


def test_memory_that_computes_nothing_is_said_to_be() -> None:
    found = plan(names=("host memory", "cpu"))
    assert str(found).splitlines()[1:3] == [
        'device "host memory": memory only',
        "device cpu: 4 tasks, 23.000 µs, 64 B, alone 29.040 µs",
    ]


def test_what_a_user_places_is_said_to_be() -> None:
    assert reasons(plan(matmul="cpu"))["last"] == "cpu: placed there by the user"


def test_a_full_device_is_a_reason() -> None:
    why = "cpu: 2.0 µs slower than on chip, where no memory is left"
    assert reasons(plan(memory=8))["last"] == why


def test_a_task_may_be_kept_with_its_neighbours() -> None:
    module = parse_module("""\
func @main(%x: f32[2, 2]) {
  %a = matmul(%x, %x) : f32[2, 2]
  %b = reduce_max(%a) {axes = (1,), keepdims = true} : f32[2, 1]
  %c = matmul(%a, %b) : f32[2, 1]
  return %c
}
""")
    assert reasons(plan(module=module))["b"] == (
        "chip: kept with its neighbours: on cpu it would take 2.0 µs less, "
        "but transfers 4.0 µs more"
    )


def test_pipelines_are_balanced() -> None:
    assert reasons(plan("throughput"))["last"] == (
        "chip: balances the pipeline, in which devices are busy for cpu 6.0 µs, chip 7.0 µs "
        "a request"
    )


@pytest.mark.parametrize("line", ["partition for speed", "task a on b: 1.000 µs\n  reads x"])
def test_a_text_that_is_no_plan_is_refused(line: str) -> None:
    text = print_plan(replace(plan(), tasks=(), transfers=())) + line
    with pytest.raises(ParseError, match="not a partition plan") as error:
        parse_plan(text)
    assert error.value.where == f"in line {4 + line.count(chr(10))}"


def test_the_drawing_for_graphviz_has_frames_for_devices_and_red_edges_for_transfers() -> None:
    dot = plan_dot(plan())
    assert 'subgraph cluster1 {\n    label="chip";\n    t1 [shape=box' in dot
    assert 't0 -> t1 [label="a\\n16 B, 2.0 \\u00b5s", fontsize=8, color=red];' in dot
    assert 't1 -> t3 [label="b", fontsize=8];' in dot


def test_the_drawing_over_time_has_a_box_a_task_and_a_line_a_transfer() -> None:
    svg = plan_svg(plan(), "small")
    assert svg.count('class="task"') == 4
    assert svg.count('class="way"') == 3
    assert "13 µs a run; cpu alone 23 µs; 3 transfers, 48 B" in svg
