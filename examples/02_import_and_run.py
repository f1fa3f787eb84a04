"""Lesson 2: compile an ONNX model, run it, and measure its accuracy."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import afterglow as ag

DIGITS = Path(__file__).parent / "digits"


def main() -> None:
    # A path, bytes, or an onnx.ModelProto. Dynamic dimensions could be bound here:
    # shapes={"image": (1, 1, 8, 8)}; otherwise they are bound by the first call.
    model = ag.compile(DIGITS / "digits.onnx")
    print("inputs:", *model.inputs)
    print("outputs:", *model.outputs)
    print(model.memory)

    data = np.load(DIGITS / "test_images.npz")
    images = data["images"].astype(np.float32)

    # Arrays by position or by name; the result is an array, or a tuple of several outputs.
    first = model(image=images[0].reshape(1, 1, 8, 8))
    print("the first image is a", first.argmax())

    # Or as in ONNX Runtime: the names of the outputs (None: all of them), and a dictionary.
    rows = [model.run(None, {"image": image.reshape(1, 1, 8, 8)})[0] for image in images]
    probabilities = np.concatenate(rows)
    right = (probabilities.argmax(1) == data["labels"]).mean()
    print(f"{right:.1%} of {len(images)} images are classified correctly")

    # PyTorch, which trained the model, gives the same probabilities.
    print("largest difference:", np.abs(probabilities - data["probabilities"]).max())

    # Inputs of the wrong type or shape raise an error that explains what is wrong.
    try:
        model(images[0].astype(np.float64))
    except ag.AfterglowError as error:
        print(error)


if __name__ == "__main__":
    main()
