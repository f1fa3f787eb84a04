"""PyTorch's fused attention layers, taken apart: it runs them in inference, and has no table entry.

Both are what `torch.nn.MultiheadAttention` and `torch.nn.TransformerEncoderLayer` call when no
gradient can be asked for.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional


def multi_head_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    embed_dim: int,
    num_head: int,
    qkv_weight: Tensor,
    qkv_bias: Tensor,
    proj_weight: Tensor,
    proj_bias: Tensor,
    mask: Tensor | None = None,
    need_weights: bool = True,
    average_attn_weights: bool = True,
    mask_type: int | None = None,
) -> tuple[Tensor, Tensor]:
    """The result and, if they are needed, the weights of `aten::_native_multi_head_attention`."""
    operands = zip(
        (query, key, value), qkv_weight.chunk(3), qkv_bias.chunk(3), strict=True
    )  # projected, each as [batch, heads, positions, width]
    q, k, v = (
        functional.linear(x, weight, bias).unflatten(-1, (num_head, -1)).transpose(1, 2)
        for x, weight, bias in operands
    )
    seen = None if mask is None else _seen(mask, mask_type)
    attended = functional.scaled_dot_product_attention(q, k, v, seen)
    result = functional.linear(attended.transpose(1, 2).flatten(2), proj_weight, proj_bias)
    if not need_weights:
        return result, query.new_empty(0)
    weights = _weights(q, k, seen)
    return result, weights.mean(1) if average_attn_weights else weights


def _weights(q: Tensor, k: Tensor, seen: Tensor | None) -> Tensor:
    scores = q @ k.transpose(-2, -1) * q.shape[-1] ** -0.5
    if seen is not None:
        scores = scores.masked_fill(~seen, -torch.inf)
    return scores.softmax(-1)


def _seen(mask: Tensor, mask_type: int | None) -> Tensor:
    """Where attention looks; the mask is set elsewhere: by position, by key, or for all heads."""
    hidden = mask.bool()
    if mask_type == 1:
        hidden = hidden[:, None, None, :]
    return ~hidden


def encoder_layer(
    src: Tensor,
    embed_dim: int,
    num_heads: int,
    qkv_weight: Tensor,
    qkv_bias: Tensor,
    proj_weight: Tensor,
    proj_bias: Tensor,
    use_gelu: bool,
    norm_first: bool,
    eps: float,
    norm_weight_1: Tensor,
    norm_bias_1: Tensor,
    norm_weight_2: Tensor,
    norm_bias_2: Tensor,
    ffn_weight_1: Tensor,
    ffn_bias_1: Tensor,
    ffn_weight_2: Tensor,
    ffn_bias_2: Tensor,
    mask: Tensor | None = None,
    mask_type: int | None = None,
) -> Tensor:
    """The result of `aten::_transformer_encoder_layer_fwd`."""

    def attend(x: Tensor) -> Tensor:
        sizes = (embed_dim, num_heads, qkv_weight, qkv_bias, proj_weight, proj_bias)
        return multi_head_attention(x, x, x, *sizes, mask, False, mask_type=mask_type)[0]

    def feed_forward(x: Tensor) -> Tensor:
        hidden = functional.linear(x, ffn_weight_1, ffn_bias_1)
        active = functional.gelu(hidden) if use_gelu else functional.relu(hidden)
        return functional.linear(active, ffn_weight_2, ffn_bias_2)

    def normalize(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        return functional.layer_norm(x, (embed_dim,), weight, bias, eps)

    first, second = (norm_weight_1, norm_bias_1), (norm_weight_2, norm_bias_2)
    if norm_first:
        x = src + attend(normalize(src, *first))
        return x + feed_forward(normalize(x, *second))
    x = normalize(src + attend(src), *first)
    return normalize(x + feed_forward(x), *second)


FUSED_LAYERS: dict[torch._ops.OperatorBase, Callable[..., Any]] = {
    torch.ops.aten._native_multi_head_attention.default: multi_head_attention,
    torch.ops.aten._transformer_encoder_layer_fwd.default: encoder_layer,
}
