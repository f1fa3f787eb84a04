"""Samples for models: photographs, texts, sounds and tokens, or what a manifest says of inputs."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
from PIL import Image

Array = np.ndarray[Any, Any]
Feed = dict[str, Array]
Spec = dict[str, Any]
"""How a manifest describes an input: name, dtype, shape, and a picture or a range of numbers."""

TEXT_IMAGES = ("page.png", "text.png")
"""Names of photographs of texts."""
ONE_HOT = ("chars2vec_lstm_loop", "g2p_id_lstm_encoder", "g2p_id_lstm_decoder:input_2")
"""Models, or one of their inputs, whose input is a row of ones, one for each letter."""
BYTES = ("magika_v3",)
"""Models that read the bytes of files."""


@dataclass(frozen=True)
class Subject:
    """A model with samples to calibrate it and to test it; labels of the latter, if there are."""

    name: str
    path: Path
    calibrate: list[Feed]
    test: list[Feed]
    labels: Array | None = None


@dataclass
class Drawer:
    """Draws samples, from photographs and files where these are."""

    photographs: Sequence[Array] = ()
    """u8[h, w, 3]."""
    pages: Sequence[Array] = ()
    """The same, of texts."""
    files: Sequence[bytes] = ()
    rng: np.random.Generator = field(default_factory=lambda: np.random.default_rng(0))

    @staticmethod
    def of(folders: Sequence[Path]) -> Drawer:
        """With the images of folders, and with files of this repository as text."""
        paths = sorted(p for folder in folders for p in folder.iterdir())
        known = [p for p in paths if p.suffix in (".png", ".jpg", ".jpeg", ".gif")]
        images = [(p, np.asarray(Image.open(p).convert("RGB"))) for p in known]
        large = [(p, image) for p, image in images if min(image.shape[:2]) >= 150]
        pages = [image for p, image in large if p.name in TEXT_IMAGES]
        others = [image for p, image in large if p.name not in TEXT_IMAGES]
        here = Path(__file__).parent
        texts = [path.read_bytes() for path in sorted(here.glob("*.py"))]
        return Drawer(others, pages, [*texts, *(p.read_bytes() for p in known[:20])])

    def feed(self, model: str, specs: Sequence[Spec]) -> Feed:
        """One sample."""
        return {spec["name"]: self._input(model, spec) for spec in specs}

    def _input(self, model: str, spec: Spec) -> Array:
        dtype, shape = np.dtype(spec["dtype"]), tuple(spec["shape"])
        if "value" in spec:
            return np.asarray(spec["value"], dtype).reshape(shape)
        if "picture" in spec:
            return self._picture(spec, dtype, shape)
        if spec.get("ones"):
            return np.ones(shape, dtype)
        if model in BYTES and self.files:
            return self._bytes(shape).astype(dtype)
        if model in ONE_HOT or f"{model}:{spec['name']}" in ONE_HOT:
            return np.eye(shape[-1], dtype=dtype)[self.rng.integers(0, shape[-1], shape[:-1])]
        if dtype.kind == "f":
            return self._signal(shape, spec.get("lo", 0.0), spec.get("hi", 1.0)).astype(dtype)
        return self.rng.integers(0, spec["hi"], shape).astype(dtype)

    def _bytes(self, shape: tuple[int, ...]) -> Array:
        """The first and last bytes of a part of a file."""
        data = np.frombuffer(self.files[self.rng.integers(len(self.files))], np.uint8)
        start = int(self.rng.integers(max(1, len(data) - 4096)))
        return np.resize(data[start : start + shape[-1]], shape)

    def _signal(self, shape: tuple[int, ...], low: float, high: float) -> Array:
        """Noise of some loudness, around waves along the last axis that is long."""
        middle, reach = (low + high) / 2, (high - low) / 2
        axis = int(np.argmax(shape)) if shape else 0
        time = np.arange(shape[axis] if shape else 1) / 50
        wave = sum(np.sin(time * f + p) for f, p in self.rng.random((4, 2)) * (20, 6)) / 4
        along = np.expand_dims(wave, [i for i in range(len(shape)) if i != axis])
        noise = self.rng.uniform(-1, 1, shape)
        share, loudness = self.rng.random(), self.rng.uniform(0.2, 1)
        return middle + reach * loudness * ((1 - share) * noise + share * along)

    def _picture(self, spec: Spec, dtype: np.dtype[Any], shape: tuple[int, ...]) -> Array:
        last = spec.get("layout") == "NHWC"
        height, width, channels = shape[1:] if last else (*shape[2:], shape[1])
        crops = [self._crop(spec["picture"], height, width, channels) for _ in range(shape[0])]
        image = np.stack(crops) - np.resize(spec.get("mean", 0.0), channels)
        image = image / np.resize(spec.get("std", 1.0), channels)
        return np.ascontiguousarray(image if last else image.transpose(0, 3, 1, 2)).astype(dtype)

    def _crop(self, kind: str, height: int, width: int, channels: int) -> Array:
        """A part of a photograph, in some light, from 0 to 1."""
        texts = kind in ("text", "table") and len(self.pages) > 0
        known = self.pages if texts else self.photographs
        image = known[self.rng.integers(len(known))]
        scale = self.rng.uniform(0.3, 1) * min(image.shape[0] / height, image.shape[1] / width)
        tall, wide = max(8, int(height * scale)), max(8, int(width * scale))
        top = self.rng.integers(max(1, image.shape[0] - tall + 1))
        left = self.rng.integers(max(1, image.shape[1] - wide + 1))
        part = Image.fromarray(image[top : top + tall, left : left + wide])
        pixels = np.asarray(part.resize((width, height), Image.Resampling.BILINEAR)) / 255
        if self.rng.random() < 0.5 and not texts:
            pixels = pixels[:, ::-1]
        pixels = pixels.mean(-1, keepdims=True) if channels == 1 else pixels[..., :channels]
        return np.clip(pixels ** self.rng.uniform(0.6, 1.6), 0, 1)


def stored_models(
    folder: Path, drawer: Drawer, count: tuple[int, int], chosen: Sequence[str]
) -> Iterator[Subject]:
    """The models of a manifest, all or the chosen ones, with drawn samples."""
    manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    entries = next(part for part in manifest.values() if isinstance(part, list))
    for entry in entries:
        name = entry["id"]
        if entry["format"] == "onnx" and (not chosen or name in chosen):
            drawer.rng = np.random.default_rng(crc32(name.encode()))
            parts = ([drawer.feed(name, entry["feed"]) for _ in range(many)] for many in count)
            yield Subject(name, folder / name / entry["file"], *parts)


def labelled_models(folder: Path, count: int, chosen: Sequence[str]) -> Iterator[Subject]:
    """The classifiers that `benchmarks.quantization_nets` trained, all or the chosen ones."""
    stored = np.load(folder / "labelled.npz")
    images, labels = stored["images"], stored["labels"]
    for path in sorted(folder.glob("*.onnx")):
        if chosen and path.stem not in chosen:
            continue
        feeds = [{"image": image[None]} for image in images]
        yield Subject(path.stem, path, feeds[:count], feeds[count:], labels[count:])
