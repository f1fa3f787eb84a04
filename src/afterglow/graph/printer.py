"""Functions and modules as text; `parser` reads it back. The grammar is in docs/ir.md."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

from afterglow.graph.attributes import attributes_text
from afterglow.graph.dims import dims_of_functions, dims_of_type
from afterglow.graph.function import Function, Module
from afterglow.graph.op import Op
from afterglow.graph.origins import origins_text
from afterglow.graph.value import Constant, Node, Placeholder, PlaceholderKind, Value
from afterglow.support.names import spell
from afterglow.types.dtype import Kind
from afterglow.types.extent.text import dim_lines

INLINE_ELEMENTS = 8
"""Constants with at most this many elements are printed; larger ones are in the payload."""


def print_module(module: Module, *, origins: bool = False) -> str:
    """The whole module: dimensions, constants, state, then functions after those they carry."""
    lines = chain(
        _dim_lines(module.functions.values(), module.states.values()),
        (_constant_line(constant) for constant in module.constants.values()),
        map(_state_line, module.states.values()),
        (print_function(f, origins=origins) for f in functions_in_order(module.functions.values())),
    )
    return "\n".join(lines) + "\n"


def print_functions(functions: Iterable[Function]) -> str:
    """Some functions of a module with those that they carry, and the constants that they read."""
    ordered = functions_in_order(functions)
    constants = constants_of(ordered)
    bodies = (print_function(function, origins=True) for function in ordered)
    lines = (*_dim_lines(ordered), *map(_constant_line, constants), *bodies)
    return "\n".join(lines) + "\n"


def _state_line(state: Placeholder) -> str:
    level = "" if state.level is None else f" {state.level}"
    return f"state {value_text(state)} : {state.type}{level}"


def _dim_lines(functions: Iterable[Function], states: Iterable[Placeholder] = ()) -> list[str]:
    dims = chain(dims_of_functions(functions), *(dims_of_type(state.type) for state in states))
    return dim_lines(dims)


def constants_of(functions: Iterable[Function]) -> list[Constant]:
    """The constants that functions read, each once."""
    read: dict[Value | None, None] = {}
    for function in functions:
        for node in function.nodes:
            read.update(dict.fromkeys(node.operands))
        read.update(dict.fromkeys(output.value for output in function.outputs))
    return [value for value in read if isinstance(value, Constant)]


def functions_in_order(functions: Iterable[Function]) -> list[Function]:
    """Functions with those that they carry, sub-functions first, otherwise in their order."""
    done: dict[Function, None] = {}

    def visit(function: Function) -> None:
        if function not in done:
            for inner in function.subgraphs():
                visit(inner)
            done[function] = None

    for function in functions:
        visit(function)
    return list(done)


def print_function(function: Function, *, origins: bool = False) -> str:
    """One function; with `origins`, each node says which nodes of the model it computes."""
    inputs = ", ".join(f"{value_text(v)}: {v.type}" for v in function.inputs)
    lines = [f"func {spell('@', function.name)}({inputs}) {{"]
    lines.extend(f"  {node_text(node, origins=origins)}" for node in function.nodes)
    for update in function.updates:
        lines.append(f"  store {value_text(update.value)} to {value_text(update.state)}")
    lines.append(f"  return {', '.join(_returned(function))}".rstrip())
    lines.append("}")
    return "\n".join(lines)


def _returned(function: Function) -> Iterator[str]:
    for output in function.outputs:
        text = value_text(output.value)
        same = output.name == output.value.name
        yield text if same else f"{text} as {json.dumps(output.name)}"


def node_text(node: Node, *, origins: bool = False) -> str:
    """One node, its types last."""
    results = ", ".join(map(value_text, node.results))
    types = ", ".join(str(result.type) for result in node.results)
    predicate = f" if {value_text(node.predicate)}" if node.predicate is not None else ""
    origin = origins_text(node.origins) if origins else ""
    return f"{results} = {_applied(node.op, node.operands)}{predicate} : {types}{origin}"


def _applied(op: Op, operands: Sequence[Value | None]) -> str:
    attributes = attributes_text(op)
    arguments = ", ".join(map(value_text, operands))
    return f"{op.mnemonic}({arguments})" + (f" {attributes}" if attributes else "")


def value_text(value: Value | None) -> str:
    """A value as an operand: `%x` for what a function has, `@w` for what the module has."""
    if value is None:
        return "none"
    shared = isinstance(value, Constant) or (
        isinstance(value, Placeholder) and value.kind is PlaceholderKind.STATE
    )
    return spell("@" if shared else "%", value.name)


def excerpt(op: Op, operands: Sequence[Value | None], name: str) -> list[str]:
    """The program around a fault: what produced the operands, then the faulty node, marked."""
    producers = dict.fromkeys(v.producer for v in operands if v is not None)
    lines = [f"  {node_text(node)}" for node in producers if node is not None]
    return [*lines, f"> {spell('%', name)} = {_applied(op, operands)}"]


def is_inline(constant: Constant) -> bool:
    """Whether the text holds the elements themselves."""
    small = constant.type.size <= INLINE_ELEMENTS
    return small and constant.type.dtype.kind is not Kind.COMPLEX


def _constant_line(constant: Constant) -> str:
    line = f"const {value_text(constant)} : {constant.type}"
    if not is_inline(constant):
        return line
    elements = ", ".join(_element_text(constant, index) for index in range(constant.type.size))
    return f"{line} = [{elements}]"


def _element_text(constant: Constant, index: int) -> str:
    element = constant.data.reshape(-1)[index]
    match constant.type.dtype.kind:
        case Kind.BOOL:
            return str(bool(element)).lower()
        case Kind.INT | Kind.UINT:
            return str(int(element))
        case Kind.STRING:
            return json.dumps(str(element))
    return str(element) if constant.type.dtype.bits in (32, 64) else repr(float(element))
