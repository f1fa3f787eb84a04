"""Minimum cuts against all cuts of small networks."""

from itertools import product
from random import Random

import pytest

from afterglow.support.min_cut import SINK, SOURCE, Network

Arc = tuple[int, int, int]


def cost(arcs: list[Arc], side: set[int]) -> int:
    return sum(capacity for tail, head, capacity in arcs if tail in side and head not in side)


def all_sides(nodes: int) -> list[set[int]]:
    """The source's side of every cut of a network with so many nodes besides source and sink."""
    choices = product((False, True), repeat=nodes)
    return [{SOURCE, *(i + 2 for i, kept in enumerate(c) if kept)} for c in choices]


def random_network(random: Random, nodes: int) -> tuple[Network, list[Arc]]:
    network, arcs = Network(), []
    for _ in range(nodes):
        network.add_node()
    for _ in range(random.randint(0, 18)):
        tail, head = random.sample(range(nodes + 2), 2)
        capacity, back = random.randint(0, 5), random.randint(0, 3)
        network.connect(tail, head, capacity, back)
        arcs += [(tail, head, capacity), (head, tail, back)]
    return network, arcs


@pytest.mark.parametrize("seed", range(100))
def test_no_cut_is_cheaper_and_preferred_nodes_are_kept(seed: int) -> None:
    random = Random(seed)
    nodes = random.randint(1, 6)
    network, arcs = random_network(random, nodes)
    preferred = [random.randrange(2, nodes + 2) for _ in range(2)]
    side = network.cheapest_cut(preferred)
    assert SOURCE in side
    assert SINK not in side
    least = min(cost(arcs, other) for other in all_sides(nodes))
    assert cost(arcs, side) == least
    cheapest = [other for other in all_sides(nodes) if cost(arcs, other) == least]
    for node in preferred:
        assert (node in side) == any(node in other for other in cheapest)


def test_a_long_chain_is_cut_at_its_weakest_arc() -> None:
    network = Network()
    tail = SOURCE
    for index in range(20_000):
        node = network.add_node()
        network.connect(tail, node, 5 if index == 700 else 9, 9)
        tail = node
    network.connect(tail, SINK, 7)
    assert network.cheapest_cut() == {SOURCE, *range(2, 702)}
