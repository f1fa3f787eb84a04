"""Conversions of element types, and ops of PyTorch that only copy."""

from __future__ import annotations

from afterglow.frontends.common.conversion import as_dtype
from afterglow.frontends.common.movement import expanded, reshaped
from afterglow.frontends.torch.node import TorchNode
from afterglow.frontends.torch.registry import aten
from afterglow.graph import Value
from afterglow.ops.elementwise import BitCast
from afterglow.support.errors import UnsupportedError
from afterglow.types.dtype import Kind


@aten(
    *("_to_copy", "to.dtype", "to.dtype_layout", "to.device", "to.other", "type_as"),
    *("clone", "alias", "detach", "detach_", "lift_fresh_copy", "lift_fresh", "contiguous"),
    *("alias_copy", "detach_copy", "_conj", "conj", "resolve_conj", "resolve_neg"),
)
def converted(n: TorchNode) -> Value:
    """The element type of the result says all; memory formats mean nothing here."""
    return _real(n, n.value("self"))


@aten("convert_element_type", "view_of", "device_put", namespace="prims")
def converted_prim(n: TorchNode) -> Value:
    """The same, as decompositions leave it."""
    return _real(n, n.value("a"))


def _real(n: TorchNode, x: Value) -> Value:
    if Kind.COMPLEX in (x.type.dtype.kind, n.result_type().kind):
        raise UnsupportedError(
            "complex numbers are not supported", help="compute with real and imaginary parts"
        )
    return as_dtype(n, x, n.result_type())


@aten("copy")
def copy(n: TorchNode) -> Value:
    """`src` in the shape and type of self."""
    source = as_dtype(n, n.value("src"), n.result_type())
    return expanded(n, source, n.value("self").type.shape)


@aten("view.dtype", "view_copy.dtype")
def view_dtype(n: TorchNode) -> Value:
    """The same bits."""
    x, dtype = n.value("self"), n.result_type()
    if x.type.dtype.bits != dtype.bits:
        raise UnsupportedError(
            f"a view of {x.type.dtype} as {dtype}, of another width, is not supported"
        )
    return x if x.type.dtype is dtype else n.emit(BitCast(dtype), x)


@aten("_local_scalar_dense", "item")
def item(n: TorchNode) -> Value:
    """The only element."""
    return as_dtype(n, reshaped(n, n.value("self"), ()), n.result_type())
