"""Models that other tools quantized dynamically, as they are found: made by public exporters.

Each is a float network, exported by PyTorch or read from a folder, whose products
`onnxruntime.quantization.quantize_dynamic` turned into products of integers. They differ in what
exporters differ in: the type of weights, scales by tensor or by channel, `reduce_range`, dynamic
dimensions, the operator set.
"""

from __future__ import annotations

import copy
import tempfile
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import onnx
import torch
from onnxruntime.quantization import QuantType, quantize_dynamic
from torch import nn

Feed = dict[str, np.ndarray]

KINDS: dict[str, dict[str, object]] = {
    "u8": {"weight_type": QuantType.QUInt8},
    "s8": {"weight_type": QuantType.QInt8},
    "u8pc": {"weight_type": QuantType.QUInt8, "per_channel": True},
    "s8pc": {"weight_type": QuantType.QInt8, "per_channel": True},
    "s8rr": {"weight_type": QuantType.QInt8, "per_channel": True, "reduce_range": True},
}
"""Options of `quantize_dynamic` by short names."""


@dataclass(frozen=True)
class Case:
    """A network, how it is quantized, and what it is called with."""

    name: str
    kind: str
    export: Callable[[Path], None]
    """Writes the float network as ONNX."""
    feed: Callable[[onnx.ModelProto], Feed] = field(default=lambda model: random_feed(model))

    def make(self, folder: Path) -> Path:
        """The quantized model as a file of a folder; it is made if it is not there."""
        path = folder / f"{self.name}.{self.kind}.onnx"
        if not path.exists():
            with tempfile.TemporaryDirectory() as scratch:
                float_model = Path(scratch) / "float.onnx"
                self.export(float_model)
                quantize_dynamic(float_model, path, **KINDS[self.kind])
        return path


def random_feed(model: onnx.ModelProto, dynamic: int = 1) -> Feed:
    """Random inputs; dimensions without an extent get one."""
    numbers, feed = np.random.default_rng(0), {}
    known = {part.name for part in model.graph.initializer}
    for each in model.graph.input:
        if each.name in known:
            continue
        tensor = each.type.tensor_type
        shape = [dim.dim_value or dynamic for dim in tensor.shape.dim]
        dtype = onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type)
        floats = dtype.kind == "f"
        made = numbers.standard_normal(shape) if floats else numbers.integers(0, 99, shape)
        feed[each.name] = made.astype(dtype)
    return feed


def zoo_cases(folder: Path, names: tuple[str, ...], kinds: tuple[str, ...]) -> Iterator[Case]:
    """Float models of a folder, each quantized in several ways."""
    for name in names:
        source = folder / f"{name}.onnx"
        if source.exists():
            for kind in kinds:
                yield Case(name, kind, lambda path, source=source: onnx.save(_plain(source), path))


def _plain(source: Path) -> onnx.ModelProto:
    """A model whose weights are no inputs, which the quantizer would leave in floats."""
    model = onnx.load(source)
    known = {part.name for part in model.graph.initializer}
    inputs = [copy.deepcopy(each) for each in model.graph.input if each.name not in known]
    del model.graph.input[:]
    model.graph.input.extend(inputs)
    return model


def torch_case(
    name: str,
    kind: str,
    make: Callable[[], nn.Module],
    shape: tuple[int, ...],
    dynamic: dict[int, int] | None = None,
    opset: int = 17,
) -> Case:
    """A network of PyTorch with one input; `dynamic` gives the extents of its dynamic axes."""
    extents = {} if dynamic is None else dynamic
    called = tuple(extents.get(axis, extent) for axis, extent in enumerate(shape))

    def export(path: Path) -> None:
        torch.manual_seed(0)
        module = make().eval()
        axes = {"x": {axis: f"d{axis}" for axis in extents}}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            torch.onnx.export(
                *(module, (torch.randn(shape),), str(path)),
                input_names=["x"],
                dynamic_axes=axes if extents else None,
                opset_version=opset,
                dynamo=False,
            )

    def feed(model: onnx.ModelProto) -> Feed:
        return {"x": np.random.default_rng(0).standard_normal(called).astype(np.float32)}

    return Case(name, kind, export, feed)


class Residual(nn.Module):
    """x + body(x)."""

    def __init__(self, *body: nn.Module) -> None:
        super().__init__()
        self.body = nn.Sequential(*body)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """See the class."""
        return x + self.body(x)


class Sequences(nn.Module):
    """A recurrent layer over [steps, batch, features], and a linear one over its results."""

    def __init__(self, layer: nn.Module, width: int, classes: int = 64) -> None:
        super().__init__()
        self.layer, self.head = layer, nn.Linear(width, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """See the class."""
        return self.head(self.layer(x)[0])


def audio_net() -> nn.Module:
    """A vocoder's shape: dilated 1-D convolutions with residuals, and upsampling."""
    layers: list[nn.Module] = [nn.Conv1d(80, 256, 7, padding=3)]
    for channels in (256, 128):
        layers += [nn.LeakyReLU(0.1), nn.ConvTranspose1d(channels, channels // 2, 8, 4, 2)]
        for dilation in (1, 3, 5):
            convs = [
                nn.Conv1d(channels // 2, channels // 2, 3, padding=d, dilation=d)
                for d in (dilation, 1)
            ]
            layers.append(Residual(nn.LeakyReLU(0.1), convs[0], nn.LeakyReLU(0.1), convs[1]))
    return nn.Sequential(*layers, nn.Conv1d(64, 1, 7, padding=3), nn.Tanh())


def separable_audio_net() -> nn.Module:
    """A speech encoder's shape: depthwise and pointwise 1-D convolutions."""
    layers: list[nn.Module] = [nn.Conv1d(64, 192, 9, stride=2, padding=4), nn.ReLU()]
    for _ in range(6):
        layers.append(
            Residual(
                nn.Conv1d(192, 192, 15, padding=7, groups=192),
                nn.Conv1d(192, 192, 1),
                nn.BatchNorm1d(192),
                nn.ReLU(),
            )
        )
    return nn.Sequential(*layers, nn.Conv1d(192, 32, 1))


def grouped_net() -> nn.Module:
    """A ResNeXt's shape: grouped convolutions between pointwise ones."""
    layers: list[nn.Module] = [nn.Conv2d(3, 64, 5, stride=2, padding=2), nn.ReLU()]
    for _ in range(4):
        body = (nn.Conv2d(64, 128, 1), nn.ReLU(), nn.Conv2d(128, 128, 3, padding=1, groups=8))
        layers += [Residual(*body, nn.ReLU(), nn.Conv2d(128, 64, 1)), nn.ReLU()]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10))


def plain_net() -> nn.Module:
    """A detector's trunk: 3x3 convolutions, and SiLU."""
    layers: list[nn.Module] = []
    for inner, outer in ((3, 32), (32, 64), (64, 64), (64, 128), (128, 128)):
        layers += [
            nn.Conv2d(inner, outer, 3, 2 if inner < outer else 1, 1),
            nn.BatchNorm2d(outer),
            nn.SiLU(),
        ]
    return nn.Sequential(*layers, nn.Conv2d(128, 85, 1))


def valid_net() -> nn.Module:
    """A small classifier of images: convolutions without padding, PReLU, max pooling."""
    return nn.Sequential(
        *(nn.Conv2d(3, 28, 3), nn.PReLU(28), nn.MaxPool2d(3, 2)),
        *(nn.Conv2d(28, 48, 3), nn.PReLU(48), nn.MaxPool2d(3, 2)),
        *(nn.Conv2d(48, 64, 2), nn.PReLU(64), nn.Flatten()),
        *(nn.Linear(256, 128), nn.PReLU(), nn.Linear(128, 16)),
    )


def encoder_net() -> nn.Module:
    """Two layers of a transformer."""
    layer = nn.TransformerEncoderLayer(256, 4, 1024, batch_first=True, activation="gelu")
    return nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)


class SelfAttention(nn.Module):
    """Attention as Hugging Face's encoders write it: products and a softmax, not one op."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value, self.out = (nn.Linear(width, width) for _ in range(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """See the class."""
        batch, length, width = x.shape
        split = (batch, length, self.heads, width // self.heads)
        q, k, v = (
            part(x).view(split).transpose(1, 2) for part in (self.query, self.key, self.value)
        )
        scores = q @ k.transpose(-1, -2) / (width // self.heads) ** 0.5
        mixed = (scores.softmax(-1) @ v).transpose(1, 2).reshape(batch, length, width)
        return self.out(mixed)


def hugging_net() -> nn.Module:
    """Four layers of a small BERT, with biases, GELU and normalizations after residuals."""
    layers: list[nn.Module] = []
    for _ in range(4):
        layers += [Residual(SelfAttention(312, 12)), nn.LayerNorm(312)]
        inner = (nn.Linear(312, 1200), nn.GELU(), nn.Linear(1200, 312))
        layers += [Residual(*inner), nn.LayerNorm(312)]
    return nn.Sequential(*layers)


class Excited(nn.Module):
    """x times a weight for each channel that its mean decides: squeeze and excitation."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        inner, self.pool = channels // 4, nn.AdaptiveAvgPool2d(1)
        self.body = nn.Sequential(
            *(nn.Conv2d(channels, inner, 1), nn.ReLU(), nn.Conv2d(inner, channels, 1)),
            nn.Hardsigmoid(),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """See the class."""
        return x * self.body(self.pool(x))


def mobile_net() -> nn.Module:
    """A MobileNetV3's shape: inverted residuals, depthwise convolutions, excitation, h-swish."""
    layers: list[nn.Module] = [nn.Conv2d(3, 24, 3, 2, 1), nn.BatchNorm2d(24), nn.Hardswish()]
    for size in (3, 5, 3, 5):
        body = (nn.Conv2d(24, 96, 1), nn.BatchNorm2d(96), nn.Hardswish())
        deep = (nn.Conv2d(96, 96, size, padding=size // 2, groups=96), nn.BatchNorm2d(96))
        layers.append(Residual(*body, *deep, Excited(96), nn.Hardswish(), nn.Conv2d(96, 24, 1)))
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(24, 10))


class Speech(nn.Module):
    """Convolutions over frames, a recurrent layer in both directions, classes for each frame."""

    def __init__(self, layer: nn.Module, width: int) -> None:
        super().__init__()
        convs = (nn.Conv1d(80, 128, 5, padding=2), nn.ReLU(), nn.Conv1d(128, 128, 3, padding=1))
        self.convs, self.layer, self.head = nn.Sequential(*convs), layer, nn.Linear(width, 40)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """See the class."""
        return self.head(self.layer(self.convs(x).permute(2, 0, 1))[0])


def mlp_net() -> nn.Module:
    """A perceptron."""
    return nn.Sequential(nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 256), nn.Linear(256, 10))


def torch_cases() -> Iterator[Case]:
    """Networks of PyTorch with random weights."""
    image, images = (1, 3, 224, 224), {0: 1}
    for kind in ("u8", "s8pc"):
        yield torch_case("audio", kind, audio_net, (1, 80, 40), {2: 100})
        yield torch_case("separable_audio", kind, separable_audio_net, (1, 64, 300), {2: 400})
        yield torch_case("grouped", kind, grouped_net, image, images, opset=13)
        yield torch_case("plain", kind, plain_net, image, images, opset=11)
        yield torch_case("valid", kind, valid_net, (1, 3, 24, 24), {0: 16}, opset=12)
        yield torch_case("encoder", kind, encoder_net, (1, 100, 256))
        yield torch_case("mlp", kind, mlp_net, (1, 784), images)
        yield torch_case(
            *("lstm", kind, lambda: Sequences(nn.LSTM(256, 256, 2), 256), (50, 1, 256)),
            dynamic={0: 50, 1: 1},
        )
        yield torch_case(
            *("bilstm", kind),
            lambda: Sequences(nn.LSTM(128, 192, bidirectional=True), 384),
            (50, 4, 128),
        )
        yield torch_case(
            "gru", kind, lambda: Sequences(nn.GRU(256, 256), 256), (50, 1, 256), {0: 50}
        )
        yield torch_case(
            *("speech_gru", kind, lambda: Speech(nn.GRU(128, 160, bidirectional=True), 320)),
            *((1, 80, 100), {2: 100}, 13),
        )
        yield torch_case(
            *("speech_lstm", kind, lambda: Speech(nn.LSTM(128, 160), 160), (1, 80, 100), None, 14)
        )
    for kind in KINDS:
        yield torch_case("hugging", kind, hugging_net, (1, 64, 312), {0: 1, 1: 64}, opset=14)
        yield torch_case("mobile", kind, mobile_net, (1, 3, 160, 160), images, opset=13)


ZOO_CONVOLUTIONS = (
    *("resnet50", "mobilenetv2", "squeezenet", "shufflenet", "efficientnet_b0"),
    *("densenet121", "inception_v2", "unet_small_256"),
)
ZOO_OTHERS = ("minilm_128", "vit_small_224", "lstm2x512", "mlp_mnist")


def all_cases(zoo: Path | None) -> Iterator[Case]:
    """Every case; those of the benchmark models if their folder is given."""
    yield from torch_cases()
    if zoo is not None:
        yield from zoo_cases(zoo, ZOO_CONVOLUTIONS, ("u8", "s8pc"))
        yield from zoo_cases(zoo, ZOO_CONVOLUTIONS[:2], ("u8pc", "s8", "s8rr"))
        yield from zoo_cases(zoo, ZOO_OTHERS, ("u8", "s8pc"))
