"""A function as a Graphviz picture."""

from __future__ import annotations

import json

from afterglow.graph.attributes import attributes_text
from afterglow.graph.function import Function
from afterglow.graph.value import Constant, Value


def print_dot(function: Function) -> str:
    """The graph in Graphviz's language: a box a node, an edge an operand with its type."""
    ids: dict[Value, str] = {}
    lines = [
        f"digraph {json.dumps(function.name)} {{",
        '  node [fontname="Helvetica", fontsize=10];',
    ]
    for index, placeholder in enumerate(function.inputs):
        ids[placeholder] = f"in{index}"
        lines.append(_box(f"in{index}", f"{placeholder.name}\n{placeholder.type}", "ellipse"))
    for index, node in enumerate(function.nodes):
        label = "\n".join(filter(None, (node.name, node.op.mnemonic, attributes_text(node.op))))
        lines.append(_box(f"n{index}", label, "box"))
        ids.update((result, f"n{index}") for result in node.results)
        lines.extend(_edge(ids, value, f"n{index}") for value in node.inputs() if value in ids)
        weights = [v for v in node.given if isinstance(v, Constant)]
        if weights:
            names = "\n".join(f"{v.name} {v.type}" for v in weights)
            lines.append(_box(f"w{index}", names, "note"))
            lines.append(f"  w{index} -> n{index} [style=dotted];")
    for index, output in enumerate(function.outputs):
        lines.append(_box(f"out{index}", output.name, "ellipse"))
        if output.value in ids:
            lines.append(_edge(ids, output.value, f"out{index}"))
    return "\n".join([*lines, "}"]) + "\n"


def _box(identifier: str, label: str, shape: str) -> str:
    return f"  {identifier} [shape={shape}, label={json.dumps(label)}];"


def _edge(ids: dict[Value, str], value: Value, target: str) -> str:
    return f"  {ids[value]} -> {target} [label={json.dumps(str(value.type))}, fontsize=8];"
