"""Partitioning the graph IR of a model in which shapes depend on data.

The graph has host nodes only: each is expanded into ops, and compiled, once its types are exact. A
front end says how far that goes (`Progress`); where it ends is the boundary between what can be
compiled now and what waits for the host.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from afterglow.frontends.base import Boundary, HostNode, Progress, Remainder, wide_name
from afterglow.graph import (
    BOUNDARY,
    Constant,
    Function,
    Module,
    Node,
    Placeholder,
    Value,
    parse_module,
    print_module,
)
from afterglow.graph.payload import pack_constants, unpack_constants
from afterglow.support.errors import UnsupportedError
from afterglow.types import HostKind, HostType


def plan_boundary(function: Function, progress: Progress, given: Container[str]) -> Boundary:
    """Where to partition, so that everything exact is computed before; what is given stays so."""
    values: dict[str, None] = {}
    reached: dict[str, Node] = {}
    waiting = [output.value for output in function.outputs]
    seen: set[Value] = set()
    while waiting:
        value = waiting.pop()
        if value in seen or value.name in given:
            continue
        seen.add(value)
        is_narrow = progress.values.get(value.name)
        if is_narrow is not None:
            values[value.name] = None
            if is_narrow:
                values[wide_name(value.name)] = None
        elif value.producer is not None:
            reached.update((result.name, value.producer) for result in value.producer.results)
            waiting.extend(value.producer.given)
    here = tuple(node for node in progress.nodes if not reached.keys().isdisjoint(node.results))
    return Boundary(here, tuple(values), *_with_twins(here, reached))


def _with_twins(
    nodes: Iterable[HostNode], by_result: Mapping[str, Node]
) -> tuple[tuple[str, ...], dict[str, str]]:
    """What the host computes, without what equals it, and which results those are."""
    first: dict[object, HostNode] = {}
    twins: dict[str, str] = {}
    for node in nodes:
        if node.waits:
            continue
        applied = next(by_result[name] for name in node.results if name in by_result)
        known = first.setdefault((applied.op, tuple(applied.operands)), node)
        if known is not node:
            pairs = zip(node.computed, known.computed, strict=False)
            twins.update((name, other) for name, other in pairs if name)
    return tuple(name for node in first.values() for name in node.computed if name), twins


def needed_nodes(
    function: Function, wanted: Iterable[Value], given: Container[str]
) -> dict[Node, None]:
    """The host nodes between what is given, by name, and what is wanted."""
    needed: dict[Node, None] = {}
    waiting = [*wanted]
    while waiting:
        value = waiting.pop()
        node = value.producer
        if value.name in given or node is None or node in needed or node.op == BOUNDARY:
            continue
        needed[node] = None
        waiting.extend(node.given)
    return needed


def is_done(function: Function, known: Container[str]) -> bool:
    """Whether the outputs need no node besides what is known."""
    return not needed_nodes(function, (o.value for o in function.outputs), known)


def remainder_of(
    graph: Module, boundaries: Sequence[Collection[str]], values: Mapping[str, Any]
) -> Remainder:
    """What computes the outputs once the values of one of the boundaries are known.

    It takes the same inputs as the model, but for those whose `values` are always the same.
    """
    module = graph.clone()
    main = module.main
    outputs = [output.value for output in main.outputs]
    kept: dict[Node, None] = {}
    for each in boundaries:
        kept.update(needed_nodes(main, outputs, each))
    _bind(main, values)
    _drop_others(main, kept)
    _drop_unused(module)
    text = print_module(module, origins=True)
    return Remainder(text.encode(), pack_constants(module.constants.values()))


def open_remainder(remainder: Remainder) -> Module:
    """The graph IR of what is left; large constants are views of the data."""
    return parse_module(bytes(remainder.graph).decode(), unpack_constants(remainder.weights))


def _bind(main: Function, values: Mapping[str, Any]) -> None:
    """Let constants stand in the places of inputs that are always the same."""
    for placeholder in [*main.inputs]:
        if placeholder.name not in values:
            continue
        main.inputs.remove(placeholder)
        if placeholder.use_count or placeholder in main.escaping():
            value = values[placeholder.name]
            _redirect(main, placeholder, _constant(main.module, placeholder, value))


def _constant(module: Module, placeholder: Placeholder, value: Any) -> Constant:
    name = placeholder.name
    if not isinstance(value, np.ndarray):
        raise UnsupportedError(
            f"input {name!r} is bound to a {type(value).__name__}: such a model cannot be saved",
            help="bind tensors only, and give the others with each call",
        )
    return module.constant(name, value)


def _drop_others(main: Function, kept: Container[Node]) -> None:
    """Erase all nodes but some; what these read of the others become boundary values."""
    for node in reversed([*main.nodes]):
        if node in kept or node.op == BOUNDARY:
            continue
        escaping = {*main.escaping()}
        for result in node.results:
            if result.use_count or result in escaping:
                name = result.name
                main.rename(result, f"{name}\0")
                types = (HostType(HostKind.ANY),)
                boundary = Node(BOUNDARY, (), types, (main.names.claim(name),))
                main.insert(boundary, before=node)
                _redirect(main, result, boundary.result)
        main.erase(node)


def _redirect(main: Function, old: Value, new: Value) -> None:
    """Let everything that takes one value take another, whose type may be another one."""
    for node, index in old.uses:
        node.set_operand(index, new)
    for output in main.outputs:
        output.value = new if output.value is old else output.value


def _drop_unused(module: Module) -> None:
    """Forget boundary values, functions and constants that nothing reads any more."""
    returned = {value for f in module.functions.values() for value in f.escaping()}
    for node in [*module.main.nodes]:
        if node.op == BOUNDARY and not node.result.use_count and node.result not in returned:
            module.main.erase(node)
    reached = {module.main: None}
    for function in (waiting := [module.main]):
        new = [inner for inner in function.subgraphs() if inner not in reached]
        reached.update(dict.fromkeys(new))
        waiting.extend(new)
    for name, function in [*module.functions.items()]:
        if function not in reached:
            module.erase_function(name)
    for constant in [*module.constants.values()]:
        if not constant.use_count and constant not in returned:
            module.erase_constant(constant)
