"""Which values of the forward pass to keep, so that all others can be computed again from them."""

from __future__ import annotations

from collections.abc import Container

from afterglow.graph import Node, Value
from afterglow.lowering.recompute.flow import Network
from afterglow.lowering.recompute.forward import Forward


def values_to_keep(forward: Forward, again: Container[Node]) -> set[Value]:
    """The fewest bytes from which what is read later can be computed by nodes that may run again.

    A value is an edge as wide as it has bytes; the cheapest cut goes through those to keep.
    """
    network = Network()
    ends: dict[Value, tuple[int, int]] = {}
    for value in forward.results():
        start, end = network.vertex(), network.vertex()
        network.connect(start, end, value.type.nbytes)
        ends[value] = start, end
        assert value.producer is not None
        if value.producer in again:
            for operand in value.producer.inputs():
                if operand in ends:
                    network.connect(ends[operand][1], start)
        else:
            network.connect(Network.SOURCE, start)
    for value in forward.read_later:
        network.connect(ends[value][1], Network.SINK)
    beyond = network.beyond_cut()
    return {value for value, (start, end) in ends.items() if start not in beyond and end in beyond}
