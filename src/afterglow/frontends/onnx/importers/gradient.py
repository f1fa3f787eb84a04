"""ONNX's Gradient: derivatives of the graph around it, which it names by attributes.

`xs`, `zs` and `y` are names of tensors, the inputs are the values of `xs` and `zs` at which to
differentiate. Where these are the tensors themselves, what computes `y` is differentiated as it
stands; where they are others, what depends on them is computed once more. If `y` has several
elements, it is their sum that is differentiated.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from afterglow.autodiff import gradients, nodes_behind, substituted
from afterglow.frontends.definition.context import NodeContext
from afterglow.frontends.definition.differentiated import nodes_between
from afterglow.frontends.definition.model import TRAINING_DOMAIN
from afterglow.frontends.onnx.registry import onnx_op
from afterglow.graph import Constant, Node, Placeholder, Value
from afterglow.ops.fill import Fill
from afterglow.ops.movement import Reshape
from afterglow.support.errors import ModelError


@onnx_op("Gradient", domain=TRAINING_DOMAIN)
def gradient(n: NodeContext) -> Sequence[Value | None]:
    """The gradient of `y` with respect to each of `xs`, for given values of `xs` and `zs`."""
    xs, zs, name = n.texts("xs"), n.texts("zs", ()), n.text("y")
    variables = _variables(n, (*xs, *zs))
    y = _float(n, name, "y")
    for x in xs:
        _float(n, x, "xs")
    _check_sight(n, variables[: len(xs)], variables[len(xs) :], y)
    at = _fed(n, variables)
    moved = {old: new for old, new in zip(variables, at, strict=True) if old is not new}
    b = n.builder
    y = substituted(b, y, moved) if moved else y
    _count(n, nodes_behind([y], at))
    found = gradients(b, [y], at[: len(xs)], fixed=at[len(xs) :])
    _count(n, b.emitted)
    pairs = zip(found, variables[: len(xs)], strict=True)
    return [
        (_zeros(n, x) if grad is None else grad) if n.wants(i) else None
        for i, (grad, x) in enumerate(pairs)
    ]


def _variables(n: NodeContext, names: Sequence[str]) -> list[Value]:
    """The tensors of these names, for each of which the node has a value of the same type."""
    if len({*names}) < len(names):
        raise ModelError(f"'xs' and 'zs' name a tensor twice: {', '.join(names)}")
    if len(n) != len(names):
        raise ModelError(
            f"'xs' and 'zs' name {len(names)} tensors, but it has {len(n)} inputs",
            help="the inputs are the values of the tensors in 'xs', then of those in 'zs'",
        )
    found = [n.tensor_named(name) for name in names]
    for name, variable, value in zip(names, found, n.values(), strict=True):
        if variable.type != value.type:
            raise ModelError(f"{name!r} is {variable.type}, the value for it is {value.type}")
    return found


def _float(n: NodeContext, name: str, attribute: str) -> Value:
    value = n.tensor_named(name)
    if not value.type.dtype.is_float:
        raise ModelError(f"{name!r} in {attribute!r} is {value.type}: only floats have a gradient")
    return value


def _check_sight(n: NodeContext, xs: Sequence[Value], zs: Sequence[Value], y: Value) -> None:
    """Refuse where `y` may depend on `xs` through what is computed elsewhere, and so not seen."""
    graph, names = n.graph, (n.texts("xs"), n.texts("zs", ()), n.text("y"))
    if y not in xs and names[2] not in graph.computed:
        raise n.fail(f"{names[2]!r} is not computed in the graph that the node is in")
    if not graph.frame.places:
        between = nodes_between(graph.session.model.graph.node, *names)
        elsewhere = [o for node in between for o in node.output if o and o not in graph.computed]
        if elsewhere:
            raise n.fail(
                f"shapes between 'xs' and 'y' depend on data: {elsewhere[0]!r} is computed before",
                help="bind the values that determine the shapes when compiling",
            )
    outer = graph.known.outer
    if any(isinstance(x, Constant) or x in outer for x in xs):
        listed = {*xs, *zs}
        read = (v for node in nodes_behind([y], listed) for v in node.given if v not in listed)
        hidden = next((v for v in read if isinstance(v, Placeholder)), None)
        if hidden is not None:
            raise n.fail(
                f"{hidden.name!r} comes from outside of the body, and may depend on 'xs'",
                help="name it in 'zs' if it does not, or differentiate outside of the body",
            )


def _fed(n: NodeContext, variables: Sequence[Value]) -> list[Value]:
    """The values to differentiate at; one that is not the variable itself becomes another one."""
    return [
        variable if value is variable else n.builder.emit(Reshape(value.type.shape), value)
        for variable, value in zip(variables, n.values(), strict=True)
    ]


def _count(n: NodeContext, nodes: Iterable[Node]) -> None:
    """Note how much there is: gradients of gradients of gradients could be any number of nodes."""
    for _ in nodes:
        n.graph.session.count_expanded()


def _zeros(n: NodeContext, x: Value) -> Value:
    return n.emit(Fill(x.type.shape, 0.0, x.type.dtype))
