"""`export_onnx`, the public entry point: an optimised or quantized model for other engines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from afterglow.driver.api import loaded_profile
from afterglow.driver.dims import DimOptions, Dims
from afterglow.driver.environment import max_memory_by_default
from afterglow.driver.options import Options, check_bindings, name_list
from afterglow.driver.profiled import open_profiled
from afterglow.driver.rounding import rounding_by
from afterglow.driver.stages import Stages, find_backend
from afterglow.driver.state import import_with_state
from afterglow.exporters.onnx import to_onnx
from afterglow.graph import Module
from afterglow.quantization.config import QuantizationConfig
from afterglow.quantization.profile import Profile
from afterglow.support.atomic_file import replace_file
from afterglow.support.errors import UnsupportedError, UsageError
from afterglow.support.lazy_dataclass import dataclass
from afterglow.support.output_path import checked_path, unwritable
from afterglow.types import Array

MOST_BYTES = 2**31 - 1
"""The largest message that protobuf writes."""


def export_onnx(
    source: Any,
    path: str | Path,
    *,
    shapes: Mapping[str, Sequence[int]] | None = None,
    dims: Dims | None = None,
    values: Mapping[str, Array] | None = None,
    precision: str = "float32",
    profile: Profile | str | Path | None = None,
    quantization: QuantizationConfig | None = None,
    round_weights: Any = None,
    keep: Sequence[str] = (),
    allow: Sequence[str] = (),
) -> None:
    """Write a model, optimised and perhaps quantized, as an ONNX file that other engines run.

    Quantized values are pairs of QuantizeLinear and DequantizeLinear, weights are stored as
    integers: docs/quantization.md. A file that is there is replaced once the new one is complete.

    Args:
        source: what `compile` takes.
        path: the file to write.
        shapes: shapes of inputs by name, to bind dynamic dimensions.
        dims: extents of dimensions by name; those with bounds stay dynamic in the file.
        values: inputs that become constants, by name.
        precision: as for `compile`, as all that follows.
        profile: what `profile` observed of the model, or the path of its file, for "int8".
        quantization: how integers are chosen for "int8".
        round_weights: samples that weights are rounded by.
        keep: what stays in f32.
        allow: ops that compute in 16-bit floats although they do not by default.
    """
    check_bindings(shapes, dims, values)
    given = DimOptions.of(dims or {})
    if given.ahead:
        raise UsageError("an exported file has one extent, or a range of them, for a dimension")
    options = Options(
        shapes=shapes or {},
        dims=given.bound,
        values=values or {},
        max_memory=max_memory_by_default(),
        precision=precision,
        profile=loaded_profile(profile),
        quantization=quantization,
        keep=name_list("keep", keep),
        allow=name_list("allow", allow),
    )
    options = rounding_by(round_weights, source, options, given)
    target = checked_path(path, "exported model")
    find_backend(options)
    opened = open_profiled(source, options)
    if target.resolve() in {file.resolve() for file in opened.files()}:
        raise UsageError(
            f"{target} is the model itself, which is never overwritten", help="give another name"
        )
    module, _ = import_with_state(opened, options)
    Exported.of(module, options).write(target)


@dataclass(frozen=True)
class Exported:
    """An ONNX model in memory, and its size."""

    data: bytes
    nodes: int

    @staticmethod
    def of(module: Module, options: Options) -> Exported:
        """From an imported module."""
        model = to_onnx(Stages(options).convert(module))
        if model.ByteSize() > MOST_BYTES:
            raise UnsupportedError(
                "the exported model is larger than 2 GB, the limit of ONNX files"
            )
        return Exported(model.SerializeToString(deterministic=True), len(model.graph.node))

    def write(self, path: Path) -> None:
        """Replace the file, as a whole."""
        try:
            replace_file(path, [self.data])
        except OSError as error:
            raise unwritable(path, error) from None
