"""Networks of PyTorch, with drawn weights and inputs: what all engines are given."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

VOCABULARY, WORDS = 30522, 128
PAST = 256
"""Tokens in the cache when a token is decoded."""


@dataclass(frozen=True)
class Network:
    """A module in f32 and its inputs, on the host."""

    module: nn.Module
    inputs: tuple[Tensor, ...]


class _Encoder(nn.Module):
    """BERT without its pooler: the hidden states of all tokens."""

    def __init__(self) -> None:
        super().__init__()
        transformers = __import__("transformers")
        config = transformers.BertConfig(attn_implementation="sdpa")
        self.model = transformers.BertModel(config, add_pooling_layer=False)

    def forward(self, tokens: Tensor) -> Tensor:
        hidden: Tensor = self.model(tokens)[0]
        return hidden


class _DecoderLayer(nn.Module):
    """A layer of GPT-2 for one new token, behind the keys and values of those before."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.width, self.heads = width, heads
        self.before, self.between = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        shape = (1, 1, self.heads, self.width // self.heads)
        parts = self.qkv(self.before(x)).split(self.width, -1)
        query, key, value = (part.reshape(shape).transpose(1, 2) for part in parts)
        keys, values = torch.cat([keys, key], 2), torch.cat([values, value], 2)
        scores = query @ keys.transpose(-1, -2) / math.sqrt(shape[-1])
        mixed = (torch.softmax(scores, -1) @ values).transpose(1, 2).reshape(1, 1, self.width)
        x = x + self.out(mixed)
        hidden = nn.functional.gelu(self.up(self.between(x)), approximate="tanh")
        return x + self.down(hidden), keys, values


class _Decoder(nn.Module):
    """One step of GPT-2 small: a token and the cache in, logits and the longer cache out."""

    def __init__(self, width: int = 768, heads: int = 12, layers: int = 12) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(50257, width), nn.Embedding(1024, width)
        self.layers = nn.ModuleList(_DecoderLayer(width, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(width)

    def forward(self, token: Tensor, place: Tensor, *past: Tensor) -> tuple[Tensor, ...]:
        x = self.tokens(token) + self.places(place)
        present: list[Tensor] = []
        for number, layer in enumerate(self.layers):
            x, keys, values = layer(x, past[2 * number], past[2 * number + 1])
            present += [keys, values]
        return (self.norm(x) @ self.tokens.weight.T, *present)


def _vision(name: str) -> Callable[[int], Network]:
    def make(batch: int) -> Network:
        module = getattr(__import__("torchvision").models, name)()
        return Network(module, (torch.randn(batch, 3, 224, 224),))

    return make


def _bert(batch: int) -> Network:
    return Network(_Encoder(), (torch.randint(0, VOCABULARY, (batch, WORDS)),))


def _gpt2(batch: int) -> Network:
    assert batch == 1
    cache = [torch.randn(1, 12, PAST, 64) * 0.3 for _ in range(24)]
    return Network(_Decoder(), (torch.tensor([[17]]), torch.tensor([[PAST]]), *cache))


_MAKERS: dict[str, Callable[[int], Network]] = {
    "resnet50": _vision("resnet50"),
    "mobilenet_v2": _vision("mobilenet_v2"),
    "efficientnet_b0": _vision("efficientnet_b0"),
    "vit_b_16": _vision("vit_b_16"),
    "bert_base_128": _bert,
    "gpt2_decode": _gpt2,
    # not among the models that the backend was made with
    "resnext50_32x4d": _vision("resnext50_32x4d"),
    "convnext_tiny": _vision("convnext_tiny"),
    "densenet121": _vision("densenet121"),
    "swin_t": _vision("swin_t"),
}
NAMES = tuple(_MAKERS)


def network(name: str, batch: int) -> Network:
    """A network by name; its weights are drawn, and norms have statistics that are not trivial."""
    torch.manual_seed(7)
    made = _MAKERS[name](batch)
    made.module.eval()
    with torch.no_grad():
        for module in made.module.modules():
            if isinstance(module, nn.BatchNorm2d):
                _settle(module)
    return made


def _settle(norm: Any) -> None:
    """Statistics as a trained network has them: near those of what comes in."""
    norm.running_mean.normal_(0, 0.1)
    norm.running_var.uniform_(0.5, 2.0)
    norm.bias.normal_(0, 0.1)
