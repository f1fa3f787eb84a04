"""Lesson 2: compile an ONNX model, run it, and check how often it is right."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import afterglow as ag

DIGITS = Path(__file__).parent / "digits"


def main() -> None:
    # A path, bytes, or an onnx.ModelProto. Shapes that the model leaves free could be bound here:
    # shapes={"image": (1, 1, 8, 8)}; left free, they are bound by the first call.
    model = ag.compile(DIGITS / "digits.onnx")
    print("takes", *model.inputs)
    print("gives", *model.outputs)
    print(model.memory)

    data = np.load(DIGITS / "test_images.npz")
    images = data["images"].astype(np.float32)

    # Arrays by position or by name; one array comes back, or a tuple if there are several outputs.
    first = model(image=images[0].reshape(1, 1, 8, 8))
    print("the first picture is a", first.argmax())

    # Or as ONNX Runtime has it: the outputs wanted (None: all of them), and a dictionary.
    rows = [model.run(None, {"image": image.reshape(1, 1, 8, 8)})[0] for image in images]
    probabilities = np.concatenate(rows)
    right = (probabilities.argmax(1) == data["labels"]).mean()
    print(f"{right:.1%} of {len(images)} pictures are right")

    # What the model was trained with gave the same probabilities.
    print("largest difference:", np.abs(probabilities - data["probabilities"]).max())

    # What does not fit is refused, with a sentence.
    try:
        model(images[0].astype(np.float64))
    except ag.AfterglowError as error:
        print(error)


if __name__ == "__main__":
    main()
