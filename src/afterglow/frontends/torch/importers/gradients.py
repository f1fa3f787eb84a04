"""ATen's gradients of ops that have no simple formula: those of ours are differentiated.

The op itself is emitted once more, which nothing reads in the end: its gradient rules read what
they need, so that the same kernels serve graphs of PyTorch and training of our own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from afterglow.autodiff import gradients
from afterglow.frontends.definition.model import AttributeDef, AttributeKind
from afterglow.frontends.torch.importers.convolution import convolution
from afterglow.frontends.torch.importers.pooling import adaptive_avg_pool, avg_pool, max_pool
from afterglow.frontends.torch.node import TorchNode
from afterglow.frontends.torch.registry import aten
from afterglow.graph import Value
from afterglow.ops.fill import Fill
from afterglow.ops.movement import Reshape
from afterglow.ops.reduction import ReduceSum


def _differentiated(n: TorchNode, y: Value, xs: Sequence[Value], seed: Value) -> list[Value]:
    """The gradients of `y` by each of `xs`: zeros where it does not depend on it."""
    found = gradients(n.builder, [y], xs, [seed])
    pairs = zip(found, xs, strict=True)
    return [_zeros(n, x) if gradient is None else gradient for gradient, x in pairs]


def _zeros(n: TorchNode, x: Value) -> Value:
    return n.emit(Fill(x.type.shape, 0.0, x.type.dtype))


@aten("convolution_backward.default")
def convolution_backward(n: TorchNode) -> Sequence[Value | None]:
    """By the input, the weight and the bias, as far as they are wanted."""
    mask = tuple(map(bool, n.argument("output_mask")))
    seed, x, weight = n.value("grad_output"), n.value("input"), n.value("weight")
    wanted = [each for each, is_wanted in zip((x, weight), mask, strict=False) if is_wanted]
    found = iter(_differentiated(n, convolution(n), wanted, seed) if wanted else ())
    by_x, by_weight = (next(found) if is_wanted else None for is_wanted in mask[:2])
    return by_x, by_weight, _by_bias(n, seed, weight) if mask[2] else None


def _by_bias(n: TorchNode, seed: Value, weight: Value) -> Value:
    """The sum over all axes but the channels, which are the first if there is no batch."""
    channels = seed.type.rank - weight.type.rank + 1
    axes = tuple(axis for axis in range(seed.type.rank) if axis != channels)
    return n.emit(Reshape((seed.type.shape[channels],)), n.emit(ReduceSum(axes), seed))


def _by_self(forward: Callable[[TorchNode], Value]) -> Callable[[TorchNode], Value]:
    """The gradient of an op by its operand `self`, from the arguments of the op itself."""

    def backward(n: TorchNode) -> Value:
        (found,) = _differentiated(n, forward(n), [n.value("self")], n.value("grad_output"))
        return found

    return backward


aten("max_pool2d_with_indices_backward", "max_pool3d_with_indices_backward")(_by_self(max_pool))
aten("avg_pool2d_backward", "avg_pool3d_backward")(_by_self(avg_pool))


@aten("_adaptive_avg_pool2d_backward", "_adaptive_avg_pool3d_backward")
def adaptive_avg_pool_backward(n: TorchNode) -> Value:
    """The extents of the result are those of its gradient."""
    axes = int(n.proto.op_type.partition("pool")[2][0])
    sizes = n.value("grad_output").type.shape[-axes:]
    size = AttributeDef(AttributeKind.INTS, tuple(sizes))
    with_size = {**n.attributes, "output_size": size}
    forward = TorchNode(n.graph, n.proto, with_size, n.operands, n.opset, n.builder)
    return _by_self(adaptive_avg_pool)(forward)
