"""A hash of what a function computes: equal for equal programs, whatever their names."""

from __future__ import annotations

import hashlib
from collections.abc import Callable

import numpy as np

from afterglow.graph.attributes import attributes_text
from afterglow.graph.function import Function, subgraphs_of
from afterglow.graph.value import Constant, Value
from afterglow.support.names import spell


def structural_hash(function: Function, content: Callable[[Constant], str] | None = None) -> str:
    """Hex digest over ops, wiring, types and constants; names and origins do not count.

    `content` is what counts of a constant besides its type: by default all elements.
    """
    content = _content if content is None else content
    digest = hashlib.sha256()
    numbers: dict[Value, str] = {}

    def number(value: Value | None) -> str:
        if value is None:
            return "none"
        if value not in numbers:
            numbers[value] = f"#{len(numbers)}"
            known = f"{content(value)}:" if isinstance(value, Constant) else ""
            return f"{numbers[value]}={known}{value.type}"
        return numbers[value]

    def add(text: str) -> None:
        digest.update(text.encode() + b"\n")

    for placeholder in function.inputs:
        add(number(placeholder))
    for node in function.nodes:
        attributes = attributes_text(node.op)
        for sub in subgraphs_of(node.op):
            body = structural_hash(sub.function, content)
            attributes = attributes.replace(spell("@", sub.function.name), body)
        operands = ",".join(map(number, node.operands))
        results = ",".join(map(number, node.results))
        predicate = number(node.predicate)
        add(f"{node.op.mnemonic}{attributes}({operands}) if {predicate}={results}")
    for update in function.updates:
        add(f"store {number(update.value)} {number(update.state)}")
    add("return " + ",".join(number(output.value) for output in function.outputs))
    return digest.hexdigest()


def _content(constant: Constant) -> str:
    data = constant.data
    if data.dtype == object:
        return hashlib.sha256(repr(data.tolist()).encode()).hexdigest()
    return hashlib.sha256(
        np.ascontiguousarray(data).view(np.uint8).data if data.size else b""
    ).hexdigest()
