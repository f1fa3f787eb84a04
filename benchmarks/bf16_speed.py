"""Models in bfloat16 against float32, and against OpenVINO in both, in turns in one process.

Without files, ResNet-50 and BERT base (128 tokens) are made by PyTorch with random weights; no
other package is needed than PyTorch, OpenVINO and this compiler's own.

    python -m benchmarks.bf16_speed                         ResNet-50 and BERT, one thread
    python -m benchmarks.bf16_speed FILE.onnx … --threads 1 2
"""

# ruff: noqa: I001  telemetry is stubbed before what would use it
from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

import afterglow as ag
from afterglow.backends.cpu import Target
from afterglow.types import Array

import benchmarks.no_telemetry  # noqa: F401
import openvino

Run = Callable[[], Any]
OPENVINO_PRECISIONS = {"float32": "f32", "bfloat16": "bf16"}
SECONDS = 2.0
"""How long each engine is timed, if its turns are not enough before."""
TURNS = 40
"""Calls of each engine at most, of which the fastest counts."""


class Bottleneck(nn.Module):
    """A block of ResNet-50."""

    def __init__(self, inner: int, channels: int, stride: int) -> None:
        super().__init__()
        outer = 4 * channels
        self.layers = nn.Sequential(
            *_conv(inner, channels, 1, 1),
            nn.ReLU(),
            *_conv(channels, channels, 3, stride),
            nn.ReLU(),
            *_conv(channels, outer, 1, 1),
        )
        same = inner == outer and stride == 1
        self.short = nn.Identity() if same else nn.Sequential(*_conv(inner, outer, 1, stride))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Both ways, added."""
        return torch.relu(self.layers(x) + self.short(x))


def _conv(inner: int, outer: int, size: int, stride: int) -> tuple[nn.Module, nn.Module]:
    window = nn.Conv2d(inner, outer, size, stride, size // 2, bias=False)
    return window, nn.BatchNorm2d(outer)


def resnet50() -> nn.Module:
    """ResNet-50 with random weights."""
    layers: list[nn.Module] = [*_conv(3, 64, 7, 2), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    inner = 64
    for channels, blocks, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
        for block in range(blocks):
            layers.append(Bottleneck(inner, channels, stride if block == 0 else 1))
            inner = 4 * channels
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inner, 1000))


class Layer(nn.Module):
    """A layer of BERT."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v, self.o = (nn.Linear(width, width) for _ in range(4))
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Attention, then the two linear layers, each with its norm."""
        q, k, v = (self._split(layer(x)) for layer in (self.q, self.k, self.v))
        mixed = nn.functional.scaled_dot_product_attention(q, k, v)
        x = self.first(x + self.o(mixed.transpose(1, 2).flatten(2)))
        return self.second(x + self.down(nn.functional.gelu(self.up(x))))

    def _split(self, x: torch.Tensor) -> torch.Tensor:
        return x.unflatten(2, (self.heads, -1)).transpose(1, 2)


def bert() -> nn.Module:
    """The layers of BERT base with random weights."""
    return nn.Sequential(*(Layer(768, 12) for _ in range(12)))


@dataclass(frozen=True)
class Model:
    """A model by name: what both engines are given, and its inputs."""

    name: str
    source: Any
    inputs: list[Array]

    def afterglow(self, precision: str, target: str, threads: int) -> Run:
        """Calls of the model as this compiler compiles it."""
        extra = (
            () if isinstance(self.source, Path) else (tuple(map(torch.from_numpy, self.inputs)),)
        )
        model = ag.compile(self.source, *extra, precision=precision, target=target, threads=threads)
        return lambda: np.asarray(model(*self.inputs))

    def openvino(self, precision: str, threads: int) -> Run:
        """Calls of the model by OpenVINO."""
        core = openvino.Core()
        if isinstance(self.source, Path):
            network = core.read_model(self.source)
        else:
            example = tuple(map(torch.from_numpy, self.inputs))
            network = openvino.convert_model(self.source, example_input=example)
        network.reshape({i: list(x.shape) for i, x in enumerate(self.inputs)})
        settings = {
            "INFERENCE_NUM_THREADS": threads,
            "PERFORMANCE_HINT": "LATENCY",
            "INFERENCE_PRECISION_HINT": OPENVINO_PRECISIONS[precision],
        }
        compiled = core.compile_model(network, "CPU", settings)
        return lambda: next(iter(compiled(self.inputs).values()))


def made_models() -> list[Model]:
    """ResNet-50 and BERT, made here."""
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    image = rng.standard_normal((1, 3, 224, 224)).astype(np.float32)
    tokens = rng.standard_normal((1, 128, 768)).astype(np.float32)
    models = [("resnet50", resnet50(), image), ("bert_base_128", bert(), tokens)]
    return [Model(name, module.eval(), [x]) for name, module, x in models]


def onnx_model(path: Path) -> Model:
    """A model of a file, with random inputs; integers are 1."""
    rng = np.random.default_rng(0)
    inputs = []
    for info in openvino.Core().read_model(path).inputs:
        dtype = info.get_element_type().to_dtype()
        shape = [int(extent) for extent in info.get_shape()]
        is_float = np.issubdtype(dtype, np.floating)
        inputs.append(
            rng.standard_normal(shape).astype(dtype) if is_float else np.ones(shape, dtype)
        )
    return Model(path.stem, path, inputs)


def engines(model: Model, threads: int) -> dict[str, Run]:
    """All engines that can run a model; of others the reason is printed."""
    found: dict[str, Run] = {}
    targets = ["host", *(["host-without-tiles"] if Target.host().bf16_tiles else [])]
    makers: dict[str, Callable[[], Run]] = {
        "afterglow float32": lambda: model.afterglow("float32", "host", threads),
        **{
            f"afterglow bfloat16{'' if target == 'host' else ', no tiles'}": (
                lambda target=target: model.afterglow("bfloat16", target, threads)
            )
            for target in targets
        },
        "openvino float32": lambda: model.openvino("float32", threads),
        "openvino bfloat16": lambda: model.openvino("bfloat16", threads),
    }
    for name, make in makers.items():
        try:
            found[name] = make()
            found[name]()
        except Exception as error:  # the others are still to be seen
            found.pop(name, None)
            print(f"FAILED {model.name}, {name}: {type(error).__name__}: {error}", flush=True)
    return found


def fastest(runs: dict[str, Run]) -> dict[str, float]:
    """The fastest call of each, in turns."""
    best = dict.fromkeys(runs, float("inf"))
    end = time.perf_counter() + SECONDS * len(runs)
    for turn in range(TURNS):
        if turn >= 3 and time.perf_counter() > end:
            break
        for name, run in runs.items():
            begin = time.perf_counter()
            run()
            best[name] = min(best[name], time.perf_counter() - begin)
    return best


def report(model: Model, threads: int) -> None:
    """Print the times of a model, and how far results are from those in float32."""
    runs = engines(model, threads)
    results = {name: run() for name, run in runs.items()}
    times = fastest(runs)
    base = times.get("afterglow float32", float("nan"))
    for name, seconds in times.items():
        reference = results.get(f"{name.split()[0]} float32")
        error = float("nan")
        if reference is not None:
            error = np.linalg.norm(results[name] - reference) / np.linalg.norm(reference)
        print(
            f"{model.name:16} {threads:2} threads  {name:28} {1e3 * seconds:9.2f} ms  "
            f"{seconds / base:5.2f} of float32  relative L2 error {error:.1e}",
            flush=True,
        )


def main() -> None:
    """Time all models at all numbers of threads."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="*", type=Path, help="ONNX files, instead of made models")
    parser.add_argument("--threads", type=int, nargs="+", default=[1])
    given = parser.parse_args()
    models = [onnx_model(path) for path in given.files] or made_models()
    for model in models:
        for threads in given.threads:
            report(model, threads)


if __name__ == "__main__":
    main()
