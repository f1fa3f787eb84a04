"""Train the model of the demo: a small convolutional network on scikit-learn's digits.

Writes digits.onnx, train_images.npz and test_images.npz next to this file. They are in the
repository, so it needs to be run only to change them. It needs PyTorch and scikit-learn, and takes
seconds:

    .venv/bin/pip install --editable '.[torch]' scikit-learn
    .venv/bin/python examples/digits/train.py

The data are 1,797 grey images of 8 x 8 pixels with levels from 0 to 16, by E. Alpaydin and
C. Kaynak (UCI Machine Learning Repository). 200 of them are held out as test_images.npz, with their
labels and PyTorch's probabilities, with which the demo compares its results.

The ONNX graph is written by hand from the trained weights, in the form in which exporters leave
models: channels first, batch normalisation not folded away.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import torch
from onnx import TensorProto, helper, numpy_helper
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import Tensor, nn
from torch.nn import functional

HERE = Path(__file__).parent
EPOCHS = 60
TEST_IMAGES = 200


def network() -> nn.Sequential:
    """Two convolutions and a linear layer; logits, not probabilities."""
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1),
        nn.BatchNorm2d(16),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1),
        nn.BatchNorm2d(32),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(2),
        nn.Flatten(),
        nn.Linear(128, 10),
    )


def shifted(images: Tensor) -> Tensor:
    """The pictures, moved by at most one pixel: there are few, so each serves several times."""
    down, right = (int(n) for n in torch.randint(-1, 2, (2,)))
    return torch.roll(images, (down, right), (2, 3))


def train(images: Tensor, labels: Tensor) -> nn.Sequential:
    """Fit the network, and leave it ready for inference."""
    model = network()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=1e-2)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, EPOCHS)
    for _ in range(EPOCHS):
        for batch in torch.randperm(len(images)).split(64):
            optimizer.zero_grad()
            functional.cross_entropy(model(shifted(images[batch])), labels[batch]).backward()
            optimizer.step()
        schedule.step()
    return model.eval()


def trained_weights(model: nn.Sequential) -> dict[str, np.ndarray]:
    """Every weight, by the name that it has in the ONNX graph."""
    weights = {"levels": np.array(16, np.float32)}
    for index, prefix in {0: "conv1", 1: "norm1", 4: "conv2", 5: "norm2", 9: "dense"}.items():
        for name, tensor in model[index].state_dict().items():
            if name != "num_batches_tracked":
                weights[f"{prefix}.{name}"] = tensor.numpy()
    return weights


def node(kind: str, operands: str, result: str, **attributes: object) -> onnx.NodeProto:
    """A node that is called like its result."""
    return helper.make_node(kind, operands.split(), [result], name=result, **attributes)


def convolution(x: str, index: int) -> list[onnx.NodeProto]:
    """Convolution, batch normalisation and rectifier."""
    conv, norm = f"conv{index}", f"norm{index}"
    parts = " ".join(f"{norm}.{part}" for part in ("weight", "bias", "running_mean", "running_var"))
    window = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}
    return [
        node("Conv", f"{x} {conv}.weight {conv}.bias", conv, **window),
        node("BatchNormalization", f"{conv} {parts}", norm, epsilon=1e-5),
        node("Relu", norm, f"relu{index}"),
    ]


def onnx_model(weights: dict[str, np.ndarray]) -> onnx.ModelProto:
    """The network as ONNX, from grey levels to probabilities, one picture at a time."""
    halves = {"kernel_shape": [2, 2], "strides": [2, 2]}
    nodes = [
        node("Div", "image levels", "scaled"),
        *convolution("scaled", 1),
        node("MaxPool", "relu1", "pool1", **halves),
        *convolution("pool1", 2),
        node("AveragePool", "relu2", "pool2", **halves),
        node("Flatten", "pool2", "flat"),
        node("Gemm", "flat dense.weight dense.bias", "dense", transB=1),
        node("Softmax", "dense", "probabilities", axis=1),
    ]
    graph = helper.make_graph(
        nodes,
        "digits",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, (1, 1, 8, 8))],
        [helper.make_tensor_value_info("probabilities", TensorProto.FLOAT, (1, 10))],
        [numpy_helper.from_array(array, name) for name, array in weights.items()],
    )
    return helper.make_model(
        graph,
        opset_imports=[helper.make_opsetid("", 17)],
        ir_version=8,
        producer_name="examples/digits/train.py",
    )


def main() -> None:
    """Train, test, and write all files."""
    torch.manual_seed(0)
    images, labels = load_digits(return_X_y=True)
    images = images.reshape(-1, 1, 8, 8).astype(np.float32)
    trained, held_out, trained_labels, held_out_labels = train_test_split(
        images, labels, test_size=TEST_IMAGES, stratify=labels, random_state=0
    )
    model = train(torch.from_numpy(trained) / 16, torch.from_numpy(trained_labels))
    with torch.no_grad():
        probabilities = model(torch.from_numpy(held_out) / 16).softmax(1).numpy()
    right = int((probabilities.argmax(1) == held_out_labels).sum())
    print(f"{right} of {TEST_IMAGES} test images are right")
    proto = onnx_model(trained_weights(model))
    onnx.checker.check_model(proto, full_check=True)
    onnx.save(proto, HERE / "digits.onnx")
    np.savez_compressed(
        HERE / "train_images.npz",
        images=trained[:, 0].astype(np.uint8),
        labels=trained_labels.astype(np.uint8),
    )
    np.savez_compressed(
        HERE / "test_images.npz",
        images=held_out[:, 0].astype(np.uint8),
        labels=held_out_labels.astype(np.uint8),
        probabilities=probabilities,
    )


if __name__ == "__main__":
    main()
