"""Which values of the forward pass to keep, so that all others can be computed again from them."""

from __future__ import annotations

from collections.abc import Container

from afterglow.graph import Node, Value
from afterglow.lowering.recompute.forward import Forward
from afterglow.support.min_cut import SINK, SOURCE, UNBOUNDED, Network


def values_to_keep(forward: Forward, again: Container[Node]) -> set[Value]:
    """The fewest bytes from which what is read later can be computed by nodes that may run again.

    A value is an arc with its bytes as capacity; the cheapest cut goes through those to keep. Of
    several, the one nearest to what is read, so that the fewest nodes run again.
    """
    network = Network()
    ends: dict[Value, tuple[int, int]] = {}
    for value in forward.results():
        start, end = network.add_node(), network.add_node()
        network.connect(start, end, value.type.nbytes)
        ends[value] = start, end
        assert value.producer is not None
        if value.producer in again:
            for operand in value.producer.inputs():
                if operand in ends:
                    network.connect(ends[operand][1], start, UNBOUNDED)
        else:
            network.connect(SOURCE, start, UNBOUNDED)
    for value in forward.read_later:
        network.connect(ends[value][1], SINK, UNBOUNDED)
    made = network.cheapest_cut(preferred=[node for pair in ends.values() for node in pair])
    return {value for value, (start, end) in ends.items() if start in made and end not in made}
