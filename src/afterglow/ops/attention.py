"""Scaled dot-product attention."""

from __future__ import annotations

from collections.abc import Sequence

from afterglow.graph import Builder, Gradients, Value, op
from afterglow.graph.op import aligned_axis
from afterglow.ops.attention_gradient import AttentionGradient
from afterglow.ops.attention_scores import WeighsKeys, emit_mixed, folded
from afterglow.types import Array, TensorType


@op("attention")
class Attention(WeighsKeys):
    """Scaled dot-product attention for each head: softmax(scale q kᵀ + mask) v.

    There may be fewer heads of keys and values: then that many heads of queries share each.
    A boolean mask says which keys count. Causal: the last query sees every key, the one before it
    all but the last key, and so on. A query that sees no key gives 0.
    """

    def infer(
        self, q: TensorType, k: TensorType, v: TensorType, mask: TensorType | None = None
    ) -> TensorType:
        """[batch, heads, queries, width of v]."""
        return self.require_fit(q, k, v, mask)

    def work(self, result: TensorType, operands: Sequence[TensorType | None]) -> int:
        """The multiplications: every query with every key, and with every value."""
        q, k, *_ = self.required_of(operands)
        return (q.size + result.size) * k.shape[2]

    def parallel(
        self, axis: int, result: TensorType, operands: Sequence[TensorType | None]
    ) -> tuple[int | None, ...] | None:
        """Images and heads, and queries unless a causal mask counts them."""
        q, k, *_ = self.required_of(operands)
        shared = (axis, axis, axis) if axis < 2 else (axis, None, None)
        grouped = axis == 1 and k.shape[1] != q.shape[1]
        if axis == 3 or grouped or (axis == 2 and self.causal):
            return None
        mask = operands[3] if len(operands) > 3 else None
        rest = () if mask is None else (aligned_axis(axis, result, mask),)
        return (*shared, *rest)

    def evaluate(self, q: Array, k: Array, v: Array, mask: Array | None = None) -> Array:
        """As it is written."""
        weights = self.weights_of(q, k, mask)
        return (folded(weights, v) @ v).reshape(*q.shape[:3], v.shape[3])

    def gradient(
        self,
        b: Builder,
        out: Value,
        grad: Value,
        q: Value,
        k: Value,
        v: Value,
        mask: Value | None = None,
    ) -> Gradients:
        """An op of its own, which computes the scores anew: it keeps none of them.

        Only the gradient of a mask has as many elements as there are scores.
        """
        op = AttentionGradient(self.scale, self.causal)
        found = b.emit_all(op, q, k, v, grad, mask)
        if mask is None or not mask.type.dtype.is_float:
            return found
        return (*found, op.emit_scores_gradient(b, q, k, v, grad, mask)[1])

    def lower(self, b: Builder, q: Value, k: Value, v: Value, mask: Value | None = None) -> Value:
        """As `evaluate`, from simpler ops."""
        return emit_mixed(b, self.emit_weights_of(b, q, k, mask), v)
