"""Finding the reference that a user names: an engine, stored tensors, or another model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import numpy as np

from afterglow.driver.array_files import load_arrays
from afterglow.driver.export import Exported
from afterglow.driver.load import load
from afterglow.driver.options import Options
from afterglow.driver.sources import open_source
from afterglow.frontends.onnx.source import OnnxSource
from afterglow.report.compare.onnx_runtime import ONNXRUNTIME
from afterglow.report.compare.onnx_sides import (
    REFERENCE,
    OnnxModel,
    OnnxReferenceSide,
    OnnxRuntimeSide,
)
from afterglow.report.compare.sides import CompiledSide, Feed, LoadedSide, Side, StoredSide
from afterglow.runtime import CompiledModel
from afterglow.runtime.load import is_saved_model
from afterglow.support.errors import UsageError, warn
from afterglow.types import Array

INTERPRETER = "interpreter"
FLOAT32 = "float32"
"""The model as it is compiled in float32, for models that are compiled in fewer bits."""
ENGINES = (ONNXRUNTIME, REFERENCE, INTERPRETER, FLOAT32)
"""References that run the model itself."""
ARCHIVES = (".npz",)


def find_reference(given: Any, model: Any, ours: CompiledSide | LoadedSide, feed: Feed) -> Side:
    """The reference that a user gives: by a name, a path, arrays by name, or a compiled model."""
    if isinstance(given, CompiledModel):
        return LoadedSide("the compiled model", given)
    if isinstance(given, Mapping):
        return stored_tensors("the given arrays", given, ours, feed)
    if isinstance(given, str) and given in ENGINES:
        return _engine(given, model, ours, feed)
    path = given if isinstance(given, (str, Path)) else None
    if path is not None and not Path(path).exists():
        raise UsageError(
            f"there is no reference {str(path)!r}",
            help=f"give {', '.join(ENGINES)}, or the path of an .npz file or of a model",
        )
    if path is not None and Path(path).suffix.lower() in ARCHIVES:
        return stored_tensors(Path(path).name, read_archive(Path(path)), ours, feed)
    return _other_model(given, ours)


def read_archive(path: Path) -> dict[str, Array]:
    """The arrays of a `.npz` file, by name."""
    loaded = load_arrays(path)
    if isinstance(loaded, np.ndarray):
        raise UsageError(f"{path} holds one array without a name", help="write numpy.savez")
    return loaded


def stored_tensors(
    label: str, arrays: Mapping[str, Any], ours: CompiledSide | LoadedSide, feed: Feed
) -> StoredSide:
    """Arrays as a reference; names that are no tensors of the model are warned of."""
    known = {*ours.names, *feed}
    found = {name: np.asarray(array) for name, array in arrays.items() if name in known}
    unknown = [name for name in arrays if name not in known]
    kept = {name: array for name, array in found.items() if name not in feed}
    if not kept:
        raise _no_tensors(label, list(arrays), list(ours.names))
    if unknown:
        shown = ", ".join(map(repr, unknown[:5])) + (" …" if len(unknown) > 5 else "")
        warn(
            f"{label}: {len(unknown)} of {len(arrays)} arrays are no tensors of the model: {shown}"
        )
    return StoredSide(label, kept)


def _no_tensors(label: str, theirs: list[str], ours: list[str]) -> UsageError:
    close = {name: get_close_matches(name, ours, 1) for name in theirs}
    hints = [f"{name!r}: do you mean {found[0]!r}?" for name, found in close.items() if found]
    return UsageError(
        f"{label} has no tensor of the model",
        excerpt=[f"it has {_some(theirs)}", f"the model has {_some(ours)}", *hints[:3]],
        help="give arrays the names that tensors have in the model",
    )


def _some(names: list[str], most: int = 8) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return (", ".join(map(repr, names[:most])) or "none") + more


def _engine(name: str, model: Any, ours: CompiledSide | LoadedSide, feed: Feed) -> Side:
    """An engine that runs the model itself."""
    if isinstance(ours, LoadedSide):
        raise UsageError(
            f"{ours.label} is compiled: {name} cannot run it",
            help="give the original model, or an .npz file or another model as the reference",
        )
    if name == FLOAT32:
        return CompiledSide(name, ours.source, _in_float32(ours.options), ours.dim_options)
    if name == INTERPRETER:
        return CompiledSide(name, ours.source, _by_definition(ours.options), ours.dim_options)
    onnx, names = onnx_of(model, ours, feed)
    side = OnnxRuntimeSide if name == ONNXRUNTIME else OnnxReferenceSide
    return side(onnx, names, ours.options.values)


def _in_float32(options: Options) -> Options:
    """The options without what makes numbers narrower; raise if nothing does."""
    if options.precision == FLOAT32:
        raise UsageError(
            "the model is compiled in float32 itself: there is nothing to compare",
            help="give a precision, such as bfloat16, or another reference",
        )
    return replace(options.in_floats, keep=(), allow=(), activations=None)


def onnx_of(model: Any, ours: CompiledSide, feed: Feed) -> tuple[OnnxModel, list[str]]:
    """The model as ONNX, and the tensors that it has; one of another format is exported.

    An exported model is optimised, so that only its inputs and outputs are those of the model.
    """
    if isinstance(ours.source, OnnxSource):
        found = OnnxModel.of(model)
        return found, found.tensors
    options = replace(_by_definition(ours.bound(feed)), backend="cpu", optimize=True)
    exported = Exported.of(ours.source.load(options)[0], options)
    warn("the model is not ONNX: it is exported for the reference, and only outputs are compared")
    return OnnxModel.of(exported.data), ours.source.output_names


def _by_definition(options: Options) -> Options:
    """The same model by the definitions of its ops, as imported."""
    return replace(
        options.in_floats,
        backend=INTERPRETER,
        target="host",
        optimize=False,
        max_arena=None,
        checkpoint=None,
        keep=(),
        allow=(),
        activations=None,
        cache_type="float32",
        tune=None,
        cache=None,
    )


def _other_model(given: Any, ours: CompiledSide | LoadedSide) -> Side:
    """Another model: compiled already, or compiled in floats with the same options."""
    is_path = isinstance(given, (str, Path))
    label = Path(given).name if is_path else "the other model"
    if is_path and is_saved_model(given):
        return LoadedSide(label, load(given))
    options = ours.options if isinstance(ours, CompiledSide) else Options()
    dims = ours.dim_options if isinstance(ours, CompiledSide) else None
    floats = replace(options.in_floats, values={}, keep=(), allow=(), activations=None)
    side = CompiledSide(label, open_source(given), floats)
    return side if dims is None else replace(side, dim_options=dims)
