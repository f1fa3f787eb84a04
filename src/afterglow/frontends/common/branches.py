"""Branches, with the operands and attributes of ONNX's If.

Both become functions of their own where their results have the same types, or grow. Otherwise the
condition must be known when importing; if it is not, the host runs the branch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeGuard

from afterglow.frontends.base import NeedsValuesError
from afterglow.frontends.common.grown import BranchGrowth
from afterglow.frontends.common.list_results import BranchLists
from afterglow.frontends.common.lists import settled
from afterglow.frontends.definition.context import Imported, ImportedBody, NodeContext
from afterglow.frontends.definition.dialect import Results
from afterglow.frontends.definition.driven import drive
from afterglow.frontends.definition.host_loops import HOST_RUNS, run_branch
from afterglow.frontends.definition.problems import NeedsInliningError, Problem, ProblemsError
from afterglow.graph import Constant, Function, Value
from afterglow.ops.control import If
from afterglow.ops.elementwise import And, Not, Or
from afterglow.ops.movement import Reshape
from afterglow.support.errors import CompileError, ModelError
from afterglow.types.dtype import boolean

MOST_JOINED = 16
"""Nodes of an If that are computed whether it needs them or not, at most."""

_LOGIC = {
    *("Identity", "Constant", "Cast", "Squeeze", "Unsqueeze", "And", "Equal", "Greater"),
    *("GreaterOrEqual", "Less", "LessOrEqual", "Not", "Or", "Xor"),
    *("ReduceMax", "ReduceMin", "ReduceSum"),
}
"""Ops of conditions: cheap, and never wrong to compute."""


def choice(n: NodeContext) -> Results:
    """One branch, if the condition is known; else an op with both as functions."""
    condition = scalar(n, n[0])
    if n.is_driven:
        return drive(n, run_branch, [condition])
    known = n.value_if_known(condition)
    if known is None and (both := _conjunction(n, condition)) is not None:
        return both
    if known is None:
        try:
            with n.graph.session.attempt():
                return _two_branches(n, condition)
        except NeedsInliningError:
            known = n.value_of(condition)
    results = n.inline("then_branch" if known else "else_branch")
    return [settled(n, value) for value in results]


def _conjunction(n: NodeContext, condition: Value) -> Value | None:
    """One boolean that is computed if another one holds, as languages with `and` and `or` do it.

    Both are computed then, if that is harmless; None if it is not, or this is another kind of If.
    """
    branches = [n.graph_attribute(name) for name in ("then_branch", "else_branch")]
    nodes = [node for branch in branches for node in branch.node]
    if len(nodes) > MOST_JOINED or not all(node.op_type in _LOGIC for node in nodes):
        return None
    if any(len(branch.output) != 1 for branch in branches):
        return None
    (one,), (other,) = (n.inline(name) for name in ("then_branch", "else_branch"))
    if not (_is_truth(one) and _is_truth(other)):
        return None
    if one.type != other.type:  # as of a scalar constant beside a tensor with an element
        if not n.graph.only_decides(n.proto.output[0]):
            return None
        one, other = (x if x.type.shape == () else n.emit(Reshape(()), x) for x in (one, other))
    if condition.type != one.type:
        condition = n.emit(Reshape(one.type.shape), condition)
    if _is_constant(other, False):
        return n.emit(And(), condition, one)
    if _is_constant(one, True):
        return n.emit(Or(), condition, other)
    without = n.emit(And(), n.emit(Not(), condition), other)
    return n.emit(Or(), n.emit(And(), condition, one), without)


def _is_truth(value: Imported | None) -> TypeGuard[Value]:
    return isinstance(value, Value) and value.type.dtype is boolean and value.type.size == 1


def _is_constant(value: Value, wanted: bool) -> bool:
    return isinstance(value, Constant) and bool(value.data.all()) is wanted


def _two_branches(n: NodeContext, condition: Value) -> list[Imported]:
    growth = BranchGrowth(_branches(n))
    if growth.places and not n.graph.frame.is_body:  # nothing carries it
        raise NeedsInliningError("the branches return different types")
    bodies = growth.bodies
    then_branch, else_branch = (body.subgraph for body in bodies)
    lists = BranchLists.of(*bodies)
    growth.append_outputs()
    captured = list(dict.fromkeys([value for body in bodies for value in body.captured]))
    for body in bodies:
        _take_inputs(body.subgraph.function, body.captured, captured)
    results = n.emit_all(If(then_branch, else_branch), condition, *captured)
    others = len(results) - growth.count
    return growth.placed(lists.placed(results[:others]), results[others:])


def _branches(n: NodeContext) -> list[ImportedBody]:
    """Both branches, or why there are not both.

    Where a model has a branch for each shape, types and shapes in one of them may not fit together:
    then the condition must be known. Each is imported once, as there are branches in branches.
    """
    found: list[ImportedBody] = []
    problems: list[Problem] = []
    failed = 0
    for name in ("then_branch", "else_branch"):
        try:
            found.append(n.body_with_lists(name, ()))
        except ProblemsError as error:
            problems.extend(error.problems)
            failed += 1
        except (NeedsInliningError, NeedsValuesError):
            if not failed:
                raise
    if failed == 2 or not all(isinstance(problem.error, CompileError) for problem in problems):
        raise ProblemsError(problems)
    if failed:
        raise NeedsInliningError("only one of the branches fits")
    return found


def _take_inputs(function: Function, own: Sequence[Value], captured: Sequence[Value]) -> None:
    """Let a function that takes its `own` outer values take all the captured ones."""
    placeholders = dict(zip(own, function.inputs, strict=True))
    for value in captured:
        if value not in placeholders:
            placeholders[value] = function.input(value.name, value.type)
    function.inputs = [placeholders[value] for value in captured]


def scalar(n: NodeContext, value: Value) -> Value:
    """A single element, without axes."""
    if value.type.shape == ():
        return value
    if value.type.size != 1:
        raise ModelError(f"a single element is needed, got {value.type}")
    return n.emit(Reshape(()), value)


HOST_RUNS[choice] = run_branch
