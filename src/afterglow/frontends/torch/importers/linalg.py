"""ATen's linear algebra beyond products."""

from __future__ import annotations

from collections.abc import Sequence

from afterglow.frontends.torch.node import TorchNode
from afterglow.frontends.torch.registry import aten
from afterglow.graph import Value
from afterglow.ops.elementwise import Abs, Sign
from afterglow.ops.functions import Log
from afterglow.ops.linear import Det


def _matrix(n: TorchNode) -> Value:
    return n.value("A" if n.has("A") else "self")


@aten("linalg_det.default", "det.default")
def det(n: TorchNode) -> Value:
    """Ours."""
    return n.emit(Det(), _matrix(n))


@aten("logdet.default")
def logdet(n: TorchNode) -> Value:
    """NaN if it is negative."""
    return n.emit(Log(), det(n))


@aten("linalg_slogdet.default", "slogdet.default")
def slogdet(n: TorchNode) -> Sequence[Value]:
    """The sign, and the logarithm of the size."""
    found = det(n)
    return n.emit(Sign(), found), n.emit(Log(), n.emit(Abs(), found))


def _only_first(n: TorchNode, count: int) -> None:
    """Raise if something reads the factors of the matrix."""
    if any(n.is_read(index) for index in range(count, len(n.proto.output))):
        raise n.fail("the factors of a determinant are not supported")


@aten("_linalg_det.default")
def det_with_factors(n: TorchNode) -> Sequence[Value | None]:
    """Without the factors, which gradients read."""
    _only_first(n, 1)
    return (det(n),)


@aten("_linalg_slogdet.default")
def slogdet_with_factors(n: TorchNode) -> Sequence[Value | None]:
    """Without the factors, which gradients read."""
    _only_first(n, 2)
    return slogdet(n)
