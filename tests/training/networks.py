"""Four small networks that learn, each a classifier: PyTorch has the same in `pytorch.py`."""

from __future__ import annotations

import json
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from afterglow import nn
from afterglow.graph import Module
from afterglow.nn.init import generator, normal
from afterglow.optim import SGD, Adam, AdamW, Optimizer
from afterglow.types import Array

REFERENCE = Path(__file__).parent / "pytorch.json"
"""What PyTorch computes: the outputs for the first batch, and the loss of each of 100 steps."""
STEPS = 100
BATCHES = 4
"""So many batches come in turn."""


@dataclass(frozen=True)
class Network:
    """A network, the shape of its input, what it tells apart, and how it learns.

    Its loss is the mean cross entropy of the outputs [items, classes] with labels [items].
    """

    layer: nn.Layer
    shape: tuple[int, ...]
    classes: int
    items: int
    optimizer: Optimizer
    tokens: int = 0
    """Inputs are integers below this; floats if it is 0."""

    def module(self) -> Module:
        """The inference function with its first weights."""
        return self.layer.module({"x": nn.Input(self.shape, "i64" if self.tokens else "f32")})

    def batch(self, step: int) -> tuple[Array, Array]:
        """Inputs and labels of a step."""
        rng = generator(step % BATCHES, "batch")
        labels = rng.bit_generator.random_raw(self.items) % np.uint64(self.classes)
        if not self.tokens:
            return normal()(rng, self.shape), labels.astype(np.int64)
        drawn = rng.bit_generator.random_raw(prod(self.shape)) % np.uint64(self.tokens)
        return drawn.astype(np.int64).reshape(self.shape), labels.astype(np.int64)


NETWORKS = {
    "mlp": Network(
        nn.Sequential(nn.Linear(12, 24), nn.ReLU(), nn.Linear(24, 16), nn.Tanh(), nn.Linear(16, 5)),
        (16, 12),
        5,
        16,
        SGD(lr=0.05, momentum=0.9),
    ),
    "cnn": Network(
        nn.Sequential(
            nn.Conv2d(1, 6, 3, padding=1, bias=False),
            nn.BatchNorm(6),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(6, 8, 3, padding=1),
            nn.BatchNorm(8),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(128, 5),
        ),
        (8, 1, 8, 8),
        5,
        8,
        SGD(lr=2e-3, momentum=0.9, weight_decay=1e-2),
    ),
    "transformer": Network(
        nn.Sequential(
            nn.Embedding(11, 16),
            nn.TransformerBlock(16, 4, 32, 0.0, "gelu", norm_first=True, causal=True),
            nn.LayerNorm(16),
            nn.Linear(16, 11),
            nn.Flatten(0, 1),
        ),
        (4, 7),
        11,
        28,
        AdamW(lr=3e-3),
        tokens=11,
    ),
    "lstm": Network(
        nn.Sequential(nn.LSTM(6, 12, batch_first=True, return_sequences=False), nn.Linear(12, 5)),
        (8, 9, 6),
        5,
        8,
        Adam(lr=5e-3),
    ),
}


def reference(name: str) -> dict[str, Any]:
    """What PyTorch computes of a network."""
    found: dict[str, Any] = json.loads(REFERENCE.read_text())[name]
    return found
