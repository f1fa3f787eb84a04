"""Functions that stand for nodes: the model's own, and those that the standard gives for ops."""

from __future__ import annotations

from collections.abc import Mapping

from afterglow.frontends.definition.context import NodeContext
from afterglow.frontends.definition.frame import Frame
from afterglow.frontends.definition.model import AttributeDef, FunctionDef
from afterglow.support.errors import ModelError


def call_frame(
    n: NodeContext,
    frame: Frame,
    function: FunctionDef,
    defaults: Mapping[str, AttributeDef],
) -> Frame:
    """The frame in which a node's function is imported."""
    name = n.graph.dialect.qualified(n.proto.domain, n.proto.op_type)
    key = f"{name} version {n.opset}"
    if key in frame.calls:
        cycle = " -> ".join((*frame.calls[frame.calls.index(key) :], key))
        raise ModelError(f"the function calls itself: {cycle}")
    results = zip(function.output, n.proto.output, strict=False)
    opsets = dict(function.opset_import)
    inner = frame.inside(
        f"function {name} of {n.builder.origin!r}",
        opsets={**frame.opsets, **opsets},
        attributes={**defaults, **function.defaults, **n.attributes},
        names={inner: frame.name(outer) for inner, outer in results if outer},
        prefix=f"{n.builder.name}.",
        origins=n.builder.origins,
        calls=(*frame.calls, key),
        is_expanded=True,
    )
    return inner
