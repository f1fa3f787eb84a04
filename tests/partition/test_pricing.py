"""Problems made of graphs, with prices that tests invent."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

import afterglow.ops  # noqa: F401  fills the catalogue
from afterglow.graph import Module, parse_module
from afterglow.partition.pricing import DeviceCosts, PricedTasks, price_tasks
from afterglow.partition.problem import Edge, Link
from afterglow.support.errors import UnsupportedError, UsageError

NAMES = ("cpu", "chip")
LINKS = {(0, 1): Link(1.0, 1.0), (1, 0): Link(1.0, 1.0)}
TEXT = """\
const @v : f32[2, 2] = [1.0, 2.0, 3.0, 4.0]
const @w : f32[2, 2] = [1.0, 2.0, 3.0, 4.0]
func @main(%x: f32[2, 2]) {
  %a = matmul(%x, @v) : f32[2, 2] from "first"
  %b = relu(%a) : f32[2, 2] from "act"
  %c = matmul(%b, @w) : f32[2, 2] from "second"
  %d = relu(%c) : f32[2, 2] from "last"
  %e = matmul(%d, @w) : f32[2, 2] from "third"
  return %b as "early", %e as "y"
}
"""


class Fake:
    """A price that counts how often it is asked, for a chip that lacks some ops."""

    def __init__(self, *lacking: str) -> None:
        self.lacking = lacking
        self.asked: list[tuple[str, str]] = []

    def __call__(self, device: str, module: Module) -> float | None:
        ops = [node.op.mnemonic for node in module.main.nodes]
        self.asked.append((device, " ".join(ops)))
        if device == "chip" and (missing := [op for op in ops if op in self.lacking]):
            raise UnsupportedError(f"no kernel for {missing[0]}")
        return float(len(ops)) if device == "cpu" else 0.5


def priced(price: Fake, given: Mapping[str, str] | None = None, text: str = TEXT) -> PricedTasks:
    module = parse_module(text)
    devices = {node: given[node.name] for node in module.main.nodes if node.name in (given or {})}
    return price_tasks(module, DeviceCosts(NAMES, price, LINKS, (None, 64)), devices)


def test_a_problem_has_the_times_and_weights_of_tasks_and_the_values_between() -> None:
    problem = priced(Fake()).problem
    assert [(task.name, task.seconds, task.weights) for task in problem.tasks] == [
        ("first", {0: 2.0, 1: 0.5}, (0,)),
        ("second", {0: 2.0, 1: 0.5}, (1,)),
        ("third", {0: 1.0, 1: 0.5}, (1,)),
    ]
    assert problem.weights == [16, 16]
    assert problem.edges == [
        Edge(16, None, (0,), False, "x"),
        Edge(16, 0, (1,), True, "b"),
        Edge(16, 1, (2,), False, "d"),
        Edge(16, 2, (), True, "e"),
    ]


def test_equal_tasks_are_priced_once() -> None:
    price = Fake()
    priced(price)
    assert price.asked == [(d, ops) for ops in ("matmul relu", "matmul") for d in NAMES]


def test_a_task_is_split_where_a_device_computes_some_of_its_nodes() -> None:
    found = priced(Fake("relu"))
    assert [(task.name, [*task.seconds]) for task in found.problem.tasks] == [
        ("first", [0, 1]),
        ("act", [0]),
        ("second", [0, 1]),
        ("last", [0]),
        ("third", [0, 1]),
    ]


def test_nodes_that_all_devices_compute_join_what_follows_instead() -> None:
    text = """\
func @main(%x: f32[2, 2]) {
  %a = softmax(%x) {axis = -1} : f32[2, 2]
  %b = reshape(%a) {shape = (4, 1)} : f32[4, 1]
  %c = matmul(%b, %b) {transpose_lhs = true} : f32[1, 1]
  return %c
}
"""
    whole, divided = priced(Fake(), text=text), priced(Fake("softmax"), text=text)
    assert [[n.name for n in task.nodes] for task in whole.nodes] == [["a", "b"], ["c"]]
    assert [[n.name for n in task.nodes] for task in divided.nodes] == [["a"], ["b", "c"]]


def test_a_task_that_is_placed_can_be_nowhere_else() -> None:
    found = priced(Fake(), {"b": "chip"})
    assert [task.seconds for task in found.problem.tasks[:2]] == [{0: 1.0, 1: 0.5}, {1: 0.5}]
    assert [found.is_given(task) for task in range(4)] == [False, True, False, False]
    assert found.free.tasks[1].seconds == {0: 1.0, 1: 0.5}


def test_a_device_that_cannot_compute_what_is_placed_there_is_named() -> None:
    with pytest.raises(UnsupportedError) as error:
        priced(Fake("relu"), {"b": "chip"})
    assert str(error.value) == (
        "error: device 'chip' cannot compute node 'act', which is placed there: "
        "no kernel for relu\n"
        "  help: place it on another device, or leave it to the partitioner"
    )


def test_nodes_on_one_state_cannot_be_placed_apart() -> None:
    text = """\
state @s : f32[2]
func @main(%x: f32[2]) {
  %a = add(%x, @s) : f32[2]
  %b = mul(%a, @s) : f32[2]
  store %b to @s
  return %b
}
"""
    with pytest.raises(UsageError) as error:
        priced(Fake(), {"a": "cpu", "b": "chip"}, text)
    assert str(error.value) == (
        "error: node 'a' is placed on 'cpu' and node 'b' on 'chip', "
        "but they work on the same state\n"
        "  help: place them on one device"
    )


def test_a_host_that_computes_nothing_is_not_asked() -> None:
    price = Fake()
    costs = DeviceCosts(NAMES, price, LINKS, host_computes=False)
    problem = price_tasks(parse_module(TEXT), costs).problem
    assert {device for device, _ in price.asked} == {"chip"}
    assert all([*task.seconds] == [1] for task in problem.tasks)
