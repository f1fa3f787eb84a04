"""Which of the model's nodes the nodes that a rewrite emits compute."""

from __future__ import annotations

from collections.abc import Container, Sequence

from afterglow.graph import Node, joined_origins


def replaced_nodes(root: Node, escaping: Container[int]) -> list[Node]:
    """The nodes that are not needed without `root`, whose results have no uses; `root` is last.

    `escaping` are the ids of values that a function gives to others.
    """
    found = {root: None}
    pending = [root]
    while pending:
        for value in pending.pop().inputs():
            node = value.producer
            if node is not None and node not in found and _is_only_for(found, node, escaping):
                found[node] = None
                pending.append(node)
    return list(reversed(found))


def _is_only_for(nodes: Container[Node], node: Node, escaping: Container[int]) -> bool:
    return node.op.pure and all(
        result.is_used_only_by(nodes) and id(result) not in escaping for result in node.results
    )


def give_origins(emitted: Sequence[Node], replaced: Sequence[Node]) -> None:
    """Let emitted nodes have the origins of what they replace, the last of which is the root.

    A node stands for the replaced ones of its own op, as where two ops change places. Replaced
    nodes whose op is not emitted again are part of every emitted node, as where a product takes
    over a bias. Nodes that a rule gave other origins than the root's keep them.
    """
    again = {type(node.op) for node in emitted}
    root = replaced[-1]
    for node in emitted:
        if node.origins == root.origins:
            taken = (
                old.origins
                for old in replaced
                if type(old.op) is type(node.op) or type(old.op) not in again
            )
            node.origins = joined_origins(taken) or root.origins
