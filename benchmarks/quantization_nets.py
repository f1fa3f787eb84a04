"""Train small classifiers of MNIST's digits, to quantize them: needs PyTorch.

    python -m benchmarks.quantization_nets MNIST_FOLDER DEST [--images 12000] [--epochs 3]

The folder has the four IDX files. DEST gets NAME.onnx of each kind of net, and `labelled.npz` with
images and labels that none of them was trained on.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

HELD = 2100
"""Images of the test set that are stored: the first 100 calibrate, the rest tell the accuracy."""


def read_images(path: Path) -> np.ndarray:
    """The images of an IDX file as f32[n, 1, 28, 28] from 0 to 1."""
    pixels = np.frombuffer(path.read_bytes(), np.uint8, offset=16)
    return pixels.reshape(-1, 1, 28, 28).astype(np.float32) / 255


def read_labels(path: Path) -> np.ndarray:
    """The labels of an IDX file."""
    return np.frombuffer(path.read_bytes(), np.uint8, offset=8).astype(np.int64)


def _conv(inputs: int, outputs: int, stride: int = 1, groups: int = 1, size: int = 3) -> nn.Module:
    """A convolution and its batch norm."""
    layer = nn.Conv2d(inputs, outputs, size, stride, size // 2, groups=groups, bias=False)
    return nn.Sequential(layer, nn.BatchNorm2d(outputs))


class _Residual(nn.Module):
    """Two convolutions beside a shortcut."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        middle = [_conv(inputs, outputs, stride), nn.ReLU(), _conv(outputs, outputs)]
        self.body = nn.Sequential(*middle)
        self.shortcut = _conv(inputs, outputs, stride, size=1)

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(self.body(x) + self.shortcut(x))


class _Squeeze(nn.Module):
    """Channels weighed by what their means say."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        parts = [nn.Conv2d(channels, 8, 1), nn.ReLU(), nn.Conv2d(8, channels, 1), nn.Hardsigmoid()]
        self.weigh = nn.Sequential(nn.AdaptiveAvgPool2d(1), *parts)

    def forward(self, x: Tensor) -> Tensor:
        return x * self.weigh(x)


class _Inverted(nn.Module):
    """Wide depthwise convolutions between narrow pointwise ones, with a residual sum."""

    def __init__(self, channels: int, activation: type[nn.Module]) -> None:
        super().__init__()
        wide = 4 * channels
        self.body = nn.Sequential(
            *(_conv(channels, wide, size=1), activation(), _conv(wide, wide, groups=wide)),
            *(activation(), _Squeeze(wide), _conv(wide, channels, size=1)),
        )

    def forward(self, x: Tensor) -> Tensor:
        return x + self.body(x)


class _Rows(nn.Module):
    """A recurrent net over the rows of an image."""

    def __init__(self, kind: type[nn.Module]) -> None:
        super().__init__()
        self.recurrent = kind(28, 64, batch_first=True)
        self.head = nn.Linear(64, 10)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.recurrent(x[:, 0])[0][:, -1])


class _Attention(nn.Module):
    """A transformer over patches of an image."""

    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(1, 64, 7, 7)
        self.places = nn.Parameter(torch.randn(1, 16, 64) * 0.02)
        layer = nn.TransformerEncoderLayer(64, 4, 128, 0.0, "gelu", batch_first=True)
        self.body = nn.TransformerEncoder(layer, 3, enable_nested_tensor=False)
        self.head = nn.Linear(64, 10)

    def forward(self, x: Tensor) -> Tensor:
        tokens = self.patches(x).flatten(2).transpose(1, 2) + self.places
        return self.head(self.body(tokens).mean(1))


class _Joined(nn.Module):
    """Each convolution reads all that were computed before it, joined."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(_conv(1, 16, 2), nn.ReLU())
        widths = (16, 32, 48)
        self.layers = nn.ModuleList(nn.Sequential(_conv(n, 16), nn.ReLU()) for n in widths)
        self.head = nn.Sequential(nn.MaxPool2d(2), nn.Flatten(), nn.Linear(64 * 49, 10))

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        for layer in self.layers:
            x = torch.cat([x, layer(x)], 1)
        return self.head(x)


def _mlp() -> nn.Module:
    hidden = (nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 128), nn.ReLU())
    return nn.Sequential(nn.Flatten(), *hidden, nn.Linear(128, 10))


def _lenet() -> nn.Module:
    first = (nn.Conv2d(1, 16, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2))
    second = (nn.Conv2d(16, 32, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten())
    return nn.Sequential(*first, *second, nn.Linear(800, 100), nn.Tanh(), nn.Linear(100, 10))


def _resnet() -> nn.Module:
    body = (_Residual(16, 16, 1), _Residual(16, 32, 2), _Residual(32, 64, 2))
    head = (nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10))
    return nn.Sequential(_conv(1, 16, 2), nn.ReLU(), *body, *head)


def _mobile(activation: type[nn.Module]) -> nn.Module:
    stem = (_conv(1, 16, 2), activation(), _Inverted(16, activation), _conv(16, 24, 2))
    head = (nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(24, 10))
    return nn.Sequential(*stem, *(_Inverted(24, activation) for _ in range(3)), *head)


NETS: dict[str, Callable[[], nn.Module]] = {
    "mlp": _mlp,
    "lenet": _lenet,
    "resnet": _resnet,
    "densenet": _Joined,
    "mobile_hardswish": lambda: _mobile(nn.Hardswish),
    "mobile_relu6": lambda: _mobile(nn.ReLU6),
    "mobile_silu": lambda: _mobile(nn.SiLU),
    "transformer": _Attention,
    "lstm": lambda: _Rows(nn.LSTM),
    "gru": lambda: _Rows(nn.GRU),
}
"""Kinds of nets, by name."""


def train(net: nn.Module, images: Tensor, labels: Tensor, epochs: int) -> None:
    """Adam with a falling step."""
    batch = 64
    steps = epochs * (len(images) // batch)
    optimizer = torch.optim.Adam(net.parameters())
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 4e-3, total_steps=steps)
    net.train()
    for _ in range(epochs):
        order = torch.randperm(len(images))
        for start in range(0, len(order) - batch + 1, batch):
            chosen = order[start : start + batch]
            optimizer.zero_grad()
            nn.functional.cross_entropy(net(images[chosen]), labels[chosen]).backward()
            optimizer.step()
            schedule.step()
    net.eval()


def main() -> None:
    """See the top of the file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("dest", type=Path)
    parser.add_argument("--images", type=int, default=12000)
    parser.add_argument("--epochs", type=int, default=3)
    given = parser.parse_args()
    given.dest.mkdir(parents=True, exist_ok=True)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    images = torch.from_numpy(read_images(given.folder / "train-images-idx3-ubyte")[: given.images])
    labels = torch.from_numpy(read_labels(given.folder / "train-labels-idx1-ubyte")[: given.images])
    held = read_images(given.folder / "t10k-images-idx3-ubyte")[:HELD]
    true = read_labels(given.folder / "t10k-labels-idx1-ubyte")[:HELD]
    np.savez_compressed(given.dest / "labelled.npz", images=held, labels=true)
    for name, build in NETS.items():
        torch.manual_seed(0)
        net = build().to(device)
        train(net, images.to(device), labels.to(device), given.epochs)
        net.cpu()
        with torch.no_grad():
            found = net(torch.from_numpy(held)).argmax(1).numpy()
        print(f"{name:18} {100 * (found == true).mean():.2f} %", flush=True)
        example = torch.zeros(1, 1, 28, 28)
        path = given.dest / f"{name}.onnx"
        torch.onnx.export(net, (example,), path, dynamo=False, input_names=["image"])


if __name__ == "__main__":
    main()
