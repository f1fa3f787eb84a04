"""Attention of PyTorch, which stays whole."""

import pytest

torch = pytest.importorskip("torch")

from tests.frontends.torch.agreement import assert_agree, randn  # noqa: E402

attend = torch.nn.functional.scaled_dot_product_attention


def test_attention_has_masks_scales_and_shared_heads_and_stays_attention():
    def calls(q, k, v, bias):
        seen = bias > 0
        return (
            attend(q, q, v[:, :, :3], is_causal=True),
            attend(q, k, v, is_causal=True),
            attend(q, k, v, attn_mask=bias, scale=0.3),
            attend(q, k, v, attn_mask=seen),
            attend(q, k[:, :1], v[:, :1]),
            attend(torch.cat([q, q], 1), k, v, enable_gqa=True),
            attend(q[0], k[0], v[0], attn_mask=bias),
            attend(q[None], k[None], v[None], attn_mask=bias),
            attend(q[0, 0], k[0, 0], v[0, 0]),
            attend(q, k, v, attn_mask=torch.zeros(3, 5, dtype=torch.bool)),
        )

    inputs = randn(2, 2, 3, 4), randn(2, 2, 5, 4), randn(2, 2, 5, 6), randn(3, 5)
    model = assert_agree(calls, *inputs)
    text = model.ir("import")
    assert text.count(" attention(") == 10
    assert "softmax" not in text


def test_a_layer_of_a_transformer_has_attention():
    layers = [
        torch.nn.MultiheadAttention(8, 2, batch_first=True),
        torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True),
    ]

    def apply(attention, layer, x):
        return attention(x, x, x, need_weights=False)[0], layer(x), attention(x, x, x)

    model = assert_agree(apply, randn(2, 3, 8), modules=layers)
    assert model.ir("import").count(" attention(") == 2
