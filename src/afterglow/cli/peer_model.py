"""Models for other engines, which read ONNX: those of other formats are exported first."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from afterglow.cli.request import Request
from afterglow.driver.export import Exported
from afterglow.driver.options import Options
from afterglow.frontends.content import Content
from afterglow.frontends.onnx.front_end import is_onnx
from afterglow.types import Array


@contextmanager
def peer_model(request: Request, feed: Mapping[str, Array]) -> Iterator[str]:
    """The path of the model as ONNX: its own, or that of a file made for inputs of these shapes."""
    if request.is_saved or is_onnx(Content.of(request.path)):
        yield request.path
        return
    shapes = {name: array.shape for name, array in feed.items()}
    asked = request.options
    options = Options(shapes=shapes, values=asked.values, max_memory=asked.max_memory)
    exported = Exported.of(request.source().load(options)[0], options)
    with TemporaryDirectory(prefix="afterglow-peer-") as folder:
        path = Path(folder) / "model.onnx"
        exported.write(path)
        yield str(path)
