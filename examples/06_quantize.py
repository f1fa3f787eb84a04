"""Lesson 6: quantization. Compute in integers, see what it costs, and keep what matters."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import afterglow as ag

FOLDER = Path(__file__).parent / "digits"
MODEL = FOLDER / "digits.onnx"


def load() -> tuple[np.ndarray, np.ndarray]:
    """Images of digits, [1, 8, 8] each, and which digits they are."""
    file = np.load(FOLDER / "test_images.npz")
    return file["images"].astype(np.float32)[:, np.newaxis], file["labels"]


def accuracy(model: ag.CompiledModel, images: np.ndarray, labels: np.ndarray) -> float:
    """The share of images that a model gets right."""
    guesses = [model(image[np.newaxis]).argmax() for image in images]
    return float(np.mean(guesses == labels))


def main() -> None:
    images, labels = load()

    # 1. Run the model on samples, and observe its values.
    profile = ag.profile(MODEL, images[:100])

    # 2. Compile it into integers that the profile chooses.
    for title, config in (
        ("everything that was seen", ag.QuantizationConfig(method="minmax")),
        ("the least squared error", ag.QuantizationConfig(method="mse")),
    ):
        small = ag.compile(MODEL, precision="int8", profile=profile, quantization=config)
        right = accuracy(small, images[100:], labels[100:])
        print(f"int8, ranges by {title}: {right:.1%} right")
    exact = ag.compile(MODEL)
    print(f"float32: {accuracy(exact, images[100:], labels[100:]):.1%} right")
    sizes = exact.memory.weight_bytes, small.memory.weight_bytes
    print(f"weights: {sizes[0]:,} bytes in floats, {sizes[1]:,} in integers")

    # What each layer costs: of the model's outputs if only this layer computes in integers.
    quality = ag.quantization_quality(MODEL, profile, images, limit=100)
    for layer in quality.report().layers:
        print(f"layer {layer.node}: {layer.output_snr:.0f} dB, scale {layer.scale:.4f}")

    # The most costly layers return to floats, or to 16 bits where these suffice, until the outputs
    # are as similar as they should be.
    found = quality.keep_within(5e-6)
    print(f"in floats: {', '.join(found.keep)}; with 16 bits: {', '.join(found.int16)}")
    print(f"1 - cosine similarity: {found.loss_before:.1e} before, {found.loss:.1e} then")
    ag.compile(MODEL, precision="int8", profile=quality.profile)  # the profile says what is kept


if __name__ == "__main__":
    main()
