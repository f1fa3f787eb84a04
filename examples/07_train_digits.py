"""Lesson 7: training. A convolutional network learns handwritten digits from scratch."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

import afterglow as ag
from afterglow import nn

FOLDER = Path(__file__).parent / "digits"
BATCH = 64


def load(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Images of digits, [1, 8, 8] each with numbers from 0 to 1, and which digits they are."""
    file = np.load(FOLDER / f"{name}_images.npz")
    return file["images"].astype(np.float32)[:, np.newaxis] / 16, file["labels"].astype(np.int64)


def network(width: int = 24) -> nn.Layer:
    """Three convolutions and a linear layer; logits, not probabilities."""
    return nn.Sequential(
        nn.Conv2d(1, width, 3, padding=1),
        nn.BatchNorm(width),
        nn.ReLU(),
        nn.Conv2d(width, width, 3, padding=1),
        nn.BatchNorm(width),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(width, 2 * width, 3, padding=1),
        nn.BatchNorm(2 * width),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Dropout(0.3),
        nn.Linear(8 * width, 10),
    )


def main(epochs: int = 20) -> None:
    images, labels = load("train")
    steps = len(images) // BATCH

    # Batches may come from a function of the number of the epoch. There are few images, so each
    # serves several times: it is moved by at most one pixel, another way each time.
    def batches(epoch: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        random = np.random.default_rng(epoch)
        order = random.permutation(len(images))
        for rows in np.split(order[: steps * BATCH], steps):
            moves = random.integers(-1, 2, (BATCH, 2))
            moved = [np.roll(images[i], by, (1, 2)) for i, by in zip(rows, moves, strict=True)]
            yield np.stack(moved), labels[rows]

    # None is an extent that is left open: batches of any size.
    module = network().module({"image": (None, 1, 8, 8)}, seed=0)
    trainer = ag.Trainer(
        module,
        loss="cross_entropy",
        optimizer=ag.optim.AdamW(lr=ag.optim.Cosine(3e-3, epochs * steps)),
        metrics="accuracy",
    )
    history = trainer.fit(batches, epochs)
    print(history)

    # The images of the test are not learnt from.
    right = trainer.evaluate(load("test"), batch=50)["accuracy"]
    print(f"{right:.1%} of 200 test images are right")

    # The model that infers has the weights as constants, and batch norms folded into them.
    model = trainer.compile(batch=1)
    print("the first test image is a", model(load("test")[0][:1]).argmax())


if __name__ == "__main__":
    main()
