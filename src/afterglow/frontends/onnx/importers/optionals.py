"""ONNX's optionals: whether there is an element is known when importing, so they need no object."""

from __future__ import annotations

import numpy as np

from afterglow.frontends.definition.context import Imported, NodeContext
from afterglow.frontends.onnx.registry import onnx_op
from afterglow.graph import Value
from afterglow.support.errors import ModelError


@onnx_op("Optional")
def optional(n: NodeContext) -> list[Imported | None]:
    """The operand, or nothing."""
    return n.operands[:1] or [None]


@onnx_op("OptionalHasElement")
def optional_has_element(n: NodeContext) -> Value:
    """Whether the operand is there."""
    return n.constant(np.array(any(operand is not None for operand in n.operands)))


@onnx_op("OptionalGetElement")
def optional_get_element(n: NodeContext) -> list[Imported | None]:
    """The operand, which must be there."""
    if not any(operand is not None for operand in n.operands):
        raise ModelError("the optional has no element")
    return n.operands[:1]
