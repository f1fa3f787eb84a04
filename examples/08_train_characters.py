"""Lesson 8: a small transformer learns to write, character by character, from a text at hand."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import afterglow as ag
from afterglow import nn
from afterglow.graph import Value
from afterglow.ops.elementwise import Add

TEXT = (Path(__file__).parent.parent / "LICENSE").read_text()
LETTERS = sorted(set(TEXT))
CODES = np.array([LETTERS.index(letter) for letter in TEXT])
WINDOW, WIDTH = 48, 64


def network(blocks: int) -> nn.Layer:
    """From characters to the logits of the characters that follow each of them."""
    block = nn.TransformerBlock(WIDTH, 4, 4 * WIDTH, 0.0, "gelu", norm_first=True, causal=True)
    return nn.Sequential(
        nn.Embedding(len(LETTERS), WIDTH, weight_init=nn.init.normal(0.0, 0.1)),
        add_positions,
        *[block] * blocks,
        nn.LayerNorm(WIDTH),
        nn.Linear(WIDTH, len(LETTERS)),
    )


def add_positions(scope: nn.Scope, x: Value) -> Value:
    """A layer may be a function: this one adds a vector that is learnt for each place."""
    places = scope.parameter("places", (WINDOW, WIDTH), nn.init.normal(0.0, 0.1))
    return scope.emit(Add(), x, places)


def written(trainer: ag.Trainer, beginning: str, length: int) -> str:
    """A text that goes on as the model thinks likely; what comes behind the end is not seen."""
    random, text = np.random.default_rng(0), beginning
    for _ in range(length):
        seen = [LETTERS.index(letter) for letter in text[-WINDOW:]]
        padded = np.array([seen + [0] * (WINDOW - len(seen))])
        logits = trainer.predict(padded, batch=1)[0, len(seen) - 1] / 0.6
        odds = np.exp(logits - logits.max())
        text += LETTERS[random.choice(len(odds), p=odds / odds.sum())]
    return text


def main(epochs: int = 12, steps: int = 60, blocks: int = 2, length: int = 200) -> None:
    def batches(epoch: int) -> list[tuple[np.ndarray, np.ndarray]]:
        starts = np.random.default_rng(epoch).integers(0, len(CODES) - WINDOW, (steps, 16))
        windows = CODES[starts[..., None] + np.arange(WINDOW + 1)]
        return [(rows[:, :-1], rows[:, 1:]) for rows in windows]

    trainer = ag.Trainer(
        network(blocks).module({"letters": nn.Input((None, WINDOW), "i64")}),
        loss=ag.optim.CrossEntropy(axis=-1),
        optimizer=ag.optim.AdamW(lr=ag.optim.Cosine(3e-3, epochs * steps, warmup=steps // 3)),
        metrics="perplexity",
    )
    print(f"{len(TEXT):,} characters, {len(LETTERS)} different ones")
    history = trainer.fit(batches, epochs)
    print(f"the loss fell from {history[0].loss:.2f} to {history[-1].loss:.2f}")
    print(written(trainer, "The License ", length))


if __name__ == "__main__":
    main()
