"""Fused attention layers, taken apart, against PyTorch's own kernels."""

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from afterglow.frontends.torch.fused_layers import FUSED_LAYERS  # noqa: E402

aten = torch.ops.aten
HEADS, WIDTH, BATCH, LENGTH = 2, 6, 3, 5
MASKS = [
    (None, None),
    (torch.ones(LENGTH, LENGTH).triu(1).bool(), 0),
    (torch.arange(LENGTH).expand(BATCH, LENGTH) > 2, 1),
    (torch.arange(LENGTH).expand(BATCH, HEADS, LENGTH, LENGTH) > 3, 2),
]


@pytest.fixture(autouse=True)
def _inference():
    torch.manual_seed(0)
    with torch.no_grad():
        yield


def agree(op, *args):
    torch.testing.assert_close(FUSED_LAYERS[op](*args), op(*args), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("mask", "kind"), MASKS)
@pytest.mark.parametrize("norm_first", [False, True])
def test_an_encoder_layer_is_attention_norms_and_products(mask, kind, norm_first):
    layer = nn.TransformerEncoderLayer(WIDTH, HEADS, 8, batch_first=True, norm_first=norm_first)
    own = layer.self_attn
    agree(
        aten._transformer_encoder_layer_fwd.default,
        torch.randn(BATCH, LENGTH, WIDTH),
        *(WIDTH, HEADS, own.in_proj_weight, own.in_proj_bias),
        *(own.out_proj.weight, own.out_proj.bias, norm_first, norm_first, 1e-5),
        *(layer.norm1.weight, layer.norm1.bias, layer.norm2.weight, layer.norm2.bias),
        *(layer.linear1.weight, layer.linear1.bias, layer.linear2.weight, layer.linear2.bias),
        *(mask, kind),
    )


@pytest.mark.parametrize(("mask", "kind"), MASKS)
@pytest.mark.parametrize("is_average", [False, True])
def test_attention_of_several_heads_has_its_weights(mask, kind, is_average):
    own = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True)
    x = torch.randn(BATCH, LENGTH, WIDTH)
    weights = (own.in_proj_weight, own.in_proj_bias, own.out_proj.weight, own.out_proj.bias)
    sizes = (WIDTH, HEADS)
    op = aten._native_multi_head_attention.default
    agree(op, x, x, x, *sizes, *weights, mask, True, is_average, kind)
