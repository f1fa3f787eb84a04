"""Lesson 9: fine-tuning. The last layer of an imported model learns another task."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import onnx

import afterglow as ag

FOLDER = Path(__file__).parent / "digits"


def load(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Images of digits with levels from 0 to 16, [1, 8, 8] each, and which digits they are.

    Here they are photographic negatives, which the model has never seen.
    """
    file = np.load(FOLDER / f"{name}_images.npz")
    images = 16 - file["images"].astype(np.float32)[:, np.newaxis]
    return images, file["labels"].astype(np.int64)


def pretrained() -> onnx.ModelProto:
    """The model of the demo, which knows digits, for batches of any size and without softmax."""
    model = onnx.load(FOLDER / "digits.onnx")
    graph = model.graph
    graph.node.pop()
    graph.output[0].name = graph.node[-1].output[0]
    for value in (graph.input[0], graph.output[0]):
        value.type.tensor_type.shape.dim[0].dim_param = "batch"
    return model


def main(epochs: int = 6) -> None:
    test = load("test")

    # A pattern names the weights that train; all others stay as they are, and so do the running
    # statistics of batch norms.
    for pattern in ("dense*", ("norm2*", "dense*")):
        trainer = ag.Trainer(
            pretrained(),
            loss="cross_entropy",
            optimizer=ag.optim.AdamW(lr=3e-3),
            trainable=pattern,
            metrics="accuracy",
        )
        learns = sum(array.size for array in trainer.parameters.values())
        before = trainer.evaluate(test, batch=50)["accuracy"]
        trainer.fit(load("train"), epochs, batch=32, drop_last=True, progress=False)
        after = trainer.evaluate(test, batch=50)["accuracy"]
        print(f"{pattern}: {learns:,} numbers learn, {before:.1%} right before, {after:.1%} after")

    # The result is a model as it was, with other weights: ONNX again, or compiled.
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "negatives.onnx"
        trainer.export(path)
        model = ag.compile(path)
        right = [model(image[None]).argmax() == label for image, label in zip(*test, strict=True)]
        print(f"exported and imported again: {np.mean(right):.1%} right")


if __name__ == "__main__":
    main()
