"""What Gradient nodes name by their attributes: tensors that need not be inputs of theirs."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Sequence

from afterglow.frontends.definition.model import TRAINING_DOMAIN, NodeDef


def variables(nodes: Iterable[NodeDef]) -> Iterator[str]:
    """The names for which Gradient nodes, in sub-graphs too, take values of their own."""
    for node in nodes:
        for graph in node.graphs():
            yield from variables(graph.node)
        if (node.domain, node.op_type) != (TRAINING_DOMAIN, "Gradient"):
            continue
        xs, zs = node.names_in("xs"), node.names_in("zs")
        yield from xs
        given = zip((*xs, *zs), node.input, strict=False)
        yield from (name for name, value in given if name != value)


def nodes_between(
    nodes: Sequence[NodeDef], xs: Container[str], held: Container[str], y: str
) -> list[NodeDef]:
    """The nodes through which `y` depends on any of `xs`, other than through what is held."""
    producer = {name: node for node in reversed(nodes) for name in node.output if name}
    found: list[NodeDef] = []
    depends: dict[str, bool] = {}
    waiting = [(y, False)]
    while waiting:
        name, is_ready = waiting.pop()
        node = producer.get(name)
        if name in xs or name in held or node is None:
            depends[name] = name in xs
        elif is_ready:
            depends[name] = any(depends.get(read, False) for read in node.reads)
            if depends[name]:
                found.append(node)
        elif name not in depends:
            depends[name] = False
            waiting.append((name, True))
            waiting.extend((read, False) for read in node.reads)
    return found
