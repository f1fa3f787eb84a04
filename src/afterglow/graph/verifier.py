"""The invariants of the graph IR, checked.

1. A name is used once in a function, and once among the module's constants and states.
2. Every operand is an input or an earlier result of the same function, or belongs to the module.
3. Use lists and operands agree.
4. Each node's results have the types that `infer` gives for its operands, run anew; host nodes
   state theirs.
5. A constant's data have its type.
6. A predicate is a boolean scalar.
7. Outputs have different names; what is returned and stored is defined in the function.
8. An update stores the type that the state has, and stores it once.
9. The functions that a node carries belong to the module.
10. A dimension has the same bounds wherever it occurs.
"""

from __future__ import annotations

from collections.abc import Iterator

from afterglow.graph.builder import infer_types
from afterglow.graph.dims import bounds_problem, dims_of_functions
from afterglow.graph.function import Function, Module, subgraphs_of
from afterglow.graph.printer import node_text
from afterglow.graph.value import Constant, Node, Placeholder, PlaceholderKind, Value
from afterglow.support.errors import TypeRuleError, VerifyError
from afterglow.types import DType, TensorType
from afterglow.types.dtype import boolean


def verify_module(module: Module) -> None:
    """Raise `VerifyError` if any function or constant breaks an invariant."""
    if problem := bounds_problem(dims_of_functions(module.functions.values())):
        raise VerifyError(problem, where=f"in module {module.name}")
    for constant in module.constants.values():
        _check_constant(constant)
    for function in module.functions.values():
        verify_function(function)


def verify_function(function: Function) -> None:
    """Raise `VerifyError` for the first invariant that the function breaks."""
    seen: set[Value] = set()
    names: set[str] = set()
    for placeholder in function.inputs:
        _check_name(function, placeholder, names)
        seen.add(placeholder)
    for node in function.nodes:
        for problem in _node_problems(function, node, seen):
            raise VerifyError(problem, where=f"in function @{function.name}", excerpt=_shown(node))
        for result in node.results:
            _check_name(function, result, names)
            seen.add(result)
    for problem in _signature_problems(function, seen):
        raise VerifyError(problem, where=f"in function @{function.name}")


def _check_constant(constant: Constant) -> None:
    content, type = constant.content, constant.type
    held = TensorType(DType.of(content.dtype), content.shape)
    if held.shape != type.shape or held.dtype is not type.dtype:
        raise VerifyError(f"constant @{constant.name} is {type}, its data {held}")


def _check_name(function: Function, value: Value, names: set[str]) -> None:
    if value.name in names:
        raise VerifyError(f"%{value.name} is defined twice", where=f"in function @{function.name}")
    names.add(value.name)


def _node_problems(function: Function, node: Node, seen: set[Value]) -> Iterator[str]:
    if node.function is not function:
        yield f"%{node.name} is linked into a function that does not own it"
    yield from _operand_problems(function, node, seen)
    yield from _use_problems(function, node)
    yield from _predicate_problems(function, node, seen)
    for subgraph in subgraphs_of(node.op):
        if function.module.functions.get(subgraph.function.name) is not subgraph.function:
            yield f"%{node.name} carries {subgraph}, which is not in the module"
    yield from _type_problems(node)


def _operand_problems(function: Function, node: Node, seen: set[Value]) -> Iterator[str]:
    for index, operand in enumerate(node.operands):
        if operand is None:
            continue
        if not _is_visible(function, operand, seen):
            yield f"operand {operand.name} of %{node.name} is not defined before its use"
        if not operand.has_use(node, index):
            yield f"{operand.name} does not list its use by %{node.name}"


def _use_problems(function: Function, node: Node) -> Iterator[str]:
    for result in node.results:
        for user, index in result.uses:
            if user.function is function and index >= 0 and user.operands[index] is not result:
                yield f"%{result.name} lists a use by %{user.name} that does not exist"


def _predicate_problems(function: Function, node: Node, seen: set[Value]) -> Iterator[str]:
    predicate = node.predicate
    if predicate is None:
        return
    if not _is_visible(function, predicate, seen):
        yield f"predicate {predicate.name} of %{node.name} is not defined before its use"
    if predicate.type != TensorType(boolean, ()):
        yield f"the predicate of %{node.name} must be bool[], got {predicate.type}"


def _type_problems(node: Node) -> Iterator[str]:
    if node.op.states_types:
        return
    try:
        inferred = infer_types(node.op, tuple(node.operands))
    except TypeRuleError as error:
        yield f"{node.op.mnemonic}: {error.what}"
        return
    stated = tuple(result.type for result in node.results)
    if inferred != stated:
        yield f"%{node.name} is {stated}, its type rule gives {inferred}"


def _is_visible(function: Function, value: Value, seen: set[Value]) -> bool:
    match value:
        case Constant():
            return function.module.constants.get(value.name) is value
        case Placeholder(kind=PlaceholderKind.STATE):
            return function.module.states.get(value.name) is value
    return value in seen


def _signature_problems(function: Function, seen: set[Value]) -> Iterator[str]:
    names = [output.name for output in function.outputs]
    yield from (f"two outputs are named {n!r}" for n in {*names} if names.count(n) > 1)
    for value in function.escaping():
        if not _is_visible(function, value, seen):
            yield f"{value.name} leaves the function but is not defined in it"
    stored: set[Placeholder] = set()
    for update in function.updates:
        if update.state in stored:
            yield f"state @{update.state.name} is stored twice"
        stored.add(update.state)
        if update.state.type != update.value.type:
            yield f"state @{update.state.name} is {update.state.type}, not {update.value.type}"


def _shown(node: Node) -> list[str]:
    return [f"> {node_text(node)}"] if node.results else []
