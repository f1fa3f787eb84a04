"""The training steps that are timed: four nets, their data, and how they learn."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

import afterglow as ag
from afterglow import nn
from afterglow.graph import Module, Value
from afterglow.nn import Scope
from afterglow.ops.elementwise import Add
from afterglow.optim import Optimizer


@dataclass(frozen=True)
class Net:
    """A net and what it learns: labels below `classes`."""

    layer: nn.Layer
    shape: tuple[int, ...]
    labels: tuple[int, ...]
    """The shape of the labels."""
    classes: int
    rule: str
    """The optimizer: sgd, with momentum, or adamw."""
    tokens: int = 0
    """Inputs are integers below this; floats if it is 0."""

    def module(self) -> Module:
        """The graph that infers."""
        return self.layer.module({"x": nn.Input(self.shape, "i64" if self.tokens else "f32")})

    def arrays(self) -> tuple[np.ndarray, np.ndarray]:
        """A batch."""
        rng = np.random.default_rng(0)
        labels = rng.integers(0, self.classes, self.labels)
        if self.tokens:
            return rng.integers(0, self.tokens, self.shape), labels
        return rng.standard_normal(self.shape, np.float32), labels


def _block(channels: int, results: int, stride: int) -> nn.Layer:
    main = nn.Sequential(
        nn.Conv2d(channels, results, 3, stride, 1, bias=False),
        nn.BatchNorm(results),
        nn.ReLU(),
        nn.Conv2d(results, results, 3, 1, 1, bias=False),
        nn.BatchNorm(results),
    )
    if stride == 1 and channels == results:
        return nn.Sequential(nn.Residual(main), nn.ReLU())
    skip = nn.Conv2d(channels, results, 1, stride, bias=False)
    past = nn.Sequential(skip, nn.BatchNorm(results))
    return nn.Sequential(nn.Residual(main, past), nn.ReLU())


def _resnet18() -> nn.Layer:
    stem = (nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm(64), nn.ReLU())
    layers: list[nn.Layer] = [*stem, nn.MaxPool2d(3, 2, 1)]
    channels = 64
    for results, stride in ((64, 1), (128, 2), (256, 2), (512, 2)):
        layers += [_block(channels, results, stride), _block(results, results, 1)]
        channels = results
    return nn.Sequential(*layers, nn.GlobalAvgPool(), nn.Linear(512, 1000))


@dataclass(frozen=True, repr=False)
class _Tokens(nn.Layer):
    """Embeddings of tokens and of their places."""

    def build(self, scope: Scope, x: Value) -> Value:
        """Their sum."""
        tokens = scope.layer("tokens", nn.Embedding(1000, 256), x)
        return scope.emit(Add(), tokens, scope.parameter("places", (128, 256), nn.init.normal()))


def _transformer() -> nn.Layer:
    block = nn.TransformerBlock(256, 8, 1024, 0.0, "gelu", norm_first=True, causal=True)
    last = (nn.LayerNorm(256), nn.Linear(256, 1000))
    return nn.Sequential(_Tokens(), *[block] * 4, *last)


def _mlp() -> nn.Layer:
    hidden = (nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU())
    return nn.Sequential(*hidden, nn.Linear(512, 10))


def _lstm() -> nn.Layer:
    return nn.Sequential(
        nn.LSTM(64, 128, batch_first=True, return_sequences=False), nn.Linear(128, 10)
    )


NETS = {
    "mlp": Net(_mlp(), (128, 784), (128,), 10, "sgd"),
    "lstm": Net(_lstm(), (32, 64, 64), (32,), 10, "adamw"),
    "transformer": Net(_transformer(), (8, 128), (8, 128), 1000, "adamw", tokens=1000),
    "resnet18": Net(_resnet18(), (16, 3, 64, 64), (16,), 1000, "sgd"),
}

RULES: dict[str, Callable[[], Optimizer]] = {
    "sgd": lambda: ag.optim.SGD(lr=0.01, momentum=0.9),
    "adamw": lambda: ag.optim.AdamW(lr=1e-3),
}


def make_step(net: str, threads: int) -> Callable[[], float]:
    """A function that does one step and gives the loss."""
    chosen = NETS[net]
    optimizer = RULES[chosen.rule]()
    loss = ag.optim.CrossEntropy(axis=-1)
    trainer = ag.Trainer(chosen.module(), loss, optimizer, threads=threads)
    x, labels = chosen.arrays()
    return lambda: trainer.step(x, labels)
