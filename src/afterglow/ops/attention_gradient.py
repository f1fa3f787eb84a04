"""What flows back through scaled dot-product attention."""

from __future__ import annotations

from collections.abc import Sequence

from afterglow.graph import Builder, Value, op
from afterglow.ops.attention_scores import (
    WeighsKeys,
    emit_folded,
    emit_mixed,
    emit_products,
    folded,
)
from afterglow.ops.elementwise import Mul, Sub, scalar
from afterglow.ops.linear import MatMul
from afterglow.ops.reduction import ReduceSum
from afterglow.ops.rules import require
from afterglow.types import Array, TensorType


@op("attention_gradient")
class AttentionGradient(WeighsKeys):
    """The gradients of q, k and v of an attention, given that of its result.

    With the weights p of the keys: dv = pᵀ grad, ds = p (grad vᵀ - sum(p grad vᵀ)), dq = scale ds k
    and dk = scale dsᵀ q. A head of keys that several heads of queries share sums up over them.
    """

    result_names = ("dq", "dk", "dv")

    def infer(
        self,
        q: TensorType,
        k: TensorType,
        v: TensorType,
        grad: TensorType,
        mask: TensorType | None = None,
    ) -> tuple[TensorType, TensorType, TensorType]:
        """The types of q, k and v."""
        result = self.require_fit(q, k, v, mask)
        require(grad == result, f"grad must be of the type of the result, {result}, got {grad}")
        return q, k, v

    def work(self, result: TensorType, operands: Sequence[TensorType | None]) -> int:
        """The multiplications: scores, dq and dk, then what flows back to the weights, and dv."""
        q, k, _, grad = self.required_of(operands)
        return (3 * q.size + 2 * grad.size) * k.shape[2]

    def evaluate(
        self, q: Array, k: Array, v: Array, grad: Array, mask: Array | None = None
    ) -> tuple[Array, Array, Array]:
        """By the definition."""
        weights = self.weights_of(q, k, mask)
        behind = (folded(grad, v) @ v.swapaxes(-1, -2)).reshape(weights.shape)
        total = (weights * behind).sum(-1, keepdims=True)
        scores = folded(weights * (behind - total) * self.scale, k)
        dq = (scores @ k).reshape(q.shape)
        dk = scores.swapaxes(-1, -2) @ folded(q, k)
        dv = folded(weights, v).swapaxes(-1, -2) @ folded(grad, v)
        return dq, dk, dv

    def lower(
        self, b: Builder, q: Value, k: Value, v: Value, grad: Value, mask: Value | None = None
    ) -> tuple[Value, Value, Value]:
        """As `evaluate`, from simpler ops."""
        weights, scores = self.emit_scores_gradient(b, q, k, v, grad, mask)
        scaled = b.emit(Mul(), scores, scalar(b, self.scale, scores))
        dk = b.emit(MatMul(transpose_lhs=True), emit_folded(b, scaled, k), emit_folded(b, q, k))
        dv = b.emit(MatMul(transpose_lhs=True), emit_folded(b, weights, v), emit_folded(b, grad, v))
        return emit_mixed(b, scaled, k), dk, dv

    def emit_scores_gradient(
        self, b: Builder, q: Value, k: Value, v: Value, grad: Value, mask: Value | None
    ) -> tuple[Value, Value]:
        """The weights of the keys, and the gradient of what softmax made them of."""
        weights = self.emit_weights_of(b, q, k, mask)
        behind = emit_products(b, grad, v)
        total = b.emit(ReduceSum((3,)), b.emit(Mul(), weights, behind))
        return weights, b.emit(Mul(), weights, b.emit(Sub(), behind, total))
