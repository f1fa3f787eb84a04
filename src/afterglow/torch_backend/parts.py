"""Graphs in which PyTorch runs some calls: the others are compiled, in as few parts as can be."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

from torch import fx
from torch.fx.passes.infra.partitioner import CapabilityBasedPartitioner
from torch.fx.passes.operator_support import create_op_support

from afterglow.frontends.torch.calls import is_known
from afterglow.frontends.torch.decompositions import qualified_name
from afterglow.torch_backend.graph_call import GraphCall, warn_once

LEAST_CALLS = 2
"""A part with fewer calls than this is left to PyTorch."""


def graph_call(
    graph: fx.GraphModule, fixed: Collection[int], options: Mapping[str, Any]
) -> Callable[[list[Any]], Any]:
    """What runs a graph on a list of arguments: compiled as a whole, or in parts.

    The arguments with the numbers in `fixed` are parameters.
    """
    calls = [node for node in graph.graph.nodes if node.op == "call_function"]
    missing = {_label(node) for node in calls if not is_known(node)}
    if not missing:
        return GraphCall(graph, fixed, options)
    listed = ", ".join(sorted(missing))
    warn_once(f"PyTorch runs what Afterglow cannot import, and so a graph in parts: {listed}")
    placeholders = [node for node in graph.graph.nodes if node.op == "placeholder"]
    parameters = {node.name for number, node in enumerate(placeholders) if number in fixed}
    divided = _divided(graph)
    for node in [node for node in divided.graph.nodes if node.op == "call_module"]:
        numbers = [i for i, arg in enumerate(node.args) if arg.name in parameters]
        part = _Part(divided.get_submodule(node.target), numbers, options)
        with divided.graph.inserting_before(node):
            call = divided.graph.call_function(part, node.args)
        node.replace_all_uses_with(call)
        divided.graph.erase_node(node)
    return lambda args: fx.Interpreter(divided).run(*args)


class _Part:
    """A compiled part of a graph, called as the module that it was."""

    def __init__(
        self, graph: fx.GraphModule, fixed: Collection[int], options: Mapping[str, Any]
    ) -> None:
        self.__name__ = "compiled_part"
        self.call = GraphCall(graph, fixed, options)
        output = next(node for node in graph.graph.nodes if node.op == "output")
        self.is_single = isinstance(output.args[0], fx.Node)

    def __call__(self, *args: Any) -> Any:
        """What the part returns: one result, or a tuple."""
        results = self.call(list(args))
        return results[0] if self.is_single else tuple(results)


def _divided(graph: fx.GraphModule) -> fx.GraphModule:
    support = create_op_support(lambda modules, node: _is_compiled(node))
    partitioner = CapabilityBasedPartitioner(graph, support)
    parts = [part for part in partitioner.propose_partitions() if len(part.nodes) >= LEAST_CALLS]
    found: fx.GraphModule = partitioner.fuse_partitions(parts)
    return found


def _is_compiled(node: fx.Node) -> bool:
    return node.op == "call_function" and is_known(node)


def _label(node: fx.Node) -> str:
    return "::".join(qualified_name(node.target))
