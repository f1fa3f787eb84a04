"""ATen's scaled dot-product attention, which stays whole."""

from __future__ import annotations

import math
from collections.abc import Sequence

from afterglow.frontends.common.conversion import as_dtype
from afterglow.frontends.torch.node import TorchNode
from afterglow.frontends.torch.registry import aten
from afterglow.graph import Value
from afterglow.ops.attention import Attention
from afterglow.ops.attention_scores import emit_causal
from afterglow.ops.elementwise import And, Where, scalar
from afterglow.ops.movement import Expand, Reshape
from afterglow.ops.rules import broadcast_shape
from afterglow.types.dtype import boolean

Results = Sequence[Value | None]


@aten("scaled_dot_product_attention.default")
def scaled_dot_product_attention(n: TorchNode) -> Value:
    """Any number of leading axes; a query sees the keys up to its own number if it is causal."""
    if n.argument("dropout_p"):
        raise n.fail(
            f"dropout of {n.argument('dropout_p')} in attention is not supported",
            help="export the model in inference mode: module.eval()",
        )
    q, k, v = (n.value(name) for name in ("query", "key", "value"))
    return attend(n, (q, k, v), _limited(n, q, k, n.optional(_mask_name(n))), _is_causal(n, q, k))


def _mask_name(n: TorchNode) -> str:
    return "attn_bias" if n.has("attn_bias") else "attn_mask"


@aten(
    "_scaled_dot_product_flash_attention_for_cpu.default",
    "_scaled_dot_product_flash_attention.default",
    "_scaled_dot_product_efficient_attention.default",
    "_scaled_dot_product_attention_math.default",
    "_scaled_dot_product_fused_attention_overrideable.default",
)
def with_statistics(n: TorchNode) -> Results:
    """The forms that return what only gradients read."""
    if n.is_read(1):
        raise n.fail(
            "the second result of attention is not supported",
            help="export the model in inference mode: module.eval()",
        )
    return (scaled_dot_product_attention(n),)


def _is_causal(n: TorchNode, q: Value, k: Value) -> bool:
    """Whether ours is the same: the last query sees all keys."""
    return n.flag("is_causal") and q.type.shape[-2] == k.type.shape[-2]


def _limited(n: TorchNode, q: Value, k: Value, mask: Value | None) -> Value | None:
    """The mask, with the keys that a causal query does not see if that is not ours to say."""
    if mask is not None and mask.type.dtype is not boolean:
        mask = as_dtype(n, mask, q.type.dtype)
    if not n.flag("is_causal") or _is_causal(n, q, k):
        return mask
    seen = emit_causal(n.builder, q.type.shape[-2], k.type.shape[-2], 0)
    if mask is None:
        return seen
    if mask.type.dtype is boolean:
        return n.emit(And(), mask, seen)
    return n.emit(Where(), seen, mask, scalar(n.builder, -math.inf, mask))


def attend(
    n: TorchNode, operands: tuple[Value, Value, Value], mask: Value | None, causal: bool
) -> Value:
    """Attention of operands [leading…, positions, width], by our own op of four axes."""
    q, k, v = operands
    given = n.argument("scale")
    scale = 1 / math.sqrt(q.type.shape[-1] or 1) if given is None else float(given)
    if not n.flag("enable_gqa"):
        lead = _common_lead(q, k, v)
        q, k, v = (_spread(n, x, lead) for x in (q, k, v))
    axes = q.type.shape[:-2]
    if mask is not None:
        mask = _mask_of_four(n, mask, (*axes, q.type.shape[-2], k.type.shape[-2]))
    shaped = (_of_four(n, x) for x in (q, k, v))
    y = n.emit(Attention(scale, causal), *shaped, mask)
    return y if len(axes) == 2 else n.emit(Reshape((*axes, *y.type.shape[2:])), y)


def _common_lead(*operands: Value) -> tuple[int, ...]:
    """The leading axes of all, broadcast."""
    leads = (x.type.with_shape(x.type.shape[:-2]) for x in operands)
    return broadcast_shape(**dict(zip(("query", "key", "value"), leads, strict=True)))


def _spread(n: TorchNode, x: Value, lead: tuple[int, ...]) -> Value:
    shape = (*lead, *x.type.shape[-2:])
    return x if x.type.shape == shape else n.emit(Expand(shape), x)


def _of_four(n: TorchNode, x: Value) -> Value:
    """[batch, heads, positions, width]: further axes belong to the batch."""
    *lead, positions, width = x.type.shape
    if len(lead) == 2:
        return x
    batch, heads = (math.prod(lead[:-1]), lead[-1]) if lead else (1, 1)
    return n.emit(Reshape((batch, heads, positions, width)), x)


def _mask_of_four(n: TorchNode, mask: Value, scores: tuple[int, ...]) -> Value:
    """A mask that broadcasts to scores of any rank, as one for scores of four axes."""
    if len(scores) <= 4 and mask.type.rank <= len(scores):
        return mask
    full = n.emit(Expand(scores), mask)
    *lead, queries, keys = scores
    return n.emit(Reshape((math.prod(lead[:-1]), lead[-1], queries, keys)), full)
