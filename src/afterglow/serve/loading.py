"""Loading a model of the folder: compiled if it has to be, with its batches checked."""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from hashlib import sha256
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from afterglow.driver.api import compile
from afterglow.driver.load import load
from afterglow.driver.random_arrays import random_array
from afterglow.runtime import CompiledModel
from afterglow.runtime.signature import TensorInfo
from afterglow.serve.config import ModelConfig
from afterglow.serve.datatypes import datatype_of
from afterglow.serve.folder import FoundModel
from afterglow.support.errors import AfterglowError, ModelError, UsageError
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types import Array

GUESSED_EXTENT = 8
"""The extent of a dimension without bounds when a model is tried."""
ROWS_TRIED = 3


@dataclass(frozen=True)
class LoadedModel:
    """A model that is ready to be called, and how far its requests can be joined."""

    model: CompiledModel
    max_batch: int
    """Most rows of a joined run; 1 if requests are not joined."""
    reason: str = ""
    """Why they are not."""
    single: CompiledModel | None = None
    """The same model for exactly one row, which it runs faster; None where there is no source."""


def load_found(
    found: FoundModel, config: ModelConfig, threads: int, key: bytes | None
) -> LoadedModel:
    """Load or compile a model of the folder; whatever is wrong with it is an error for users."""
    try:
        return _load_found(found, config, threads, key)
    except AfterglowError:
        raise
    except Exception as error:  # of a library that reads files
        what = f"{found.path.name} cannot be read: {type(error).__name__}: {str(error)[:200]}"
        raise ModelError(what) from error


def _load_found(
    found: FoundModel, config: ModelConfig, threads: int, key: bytes | None
) -> LoadedModel:
    if found.path.suffix == ".agc":
        check_signed(found.path, key)
        model = load(found.path, threads=threads)
    elif found.path.suffix == ".onnx" and (config.max_batch or 1) > 1:
        return _load_onnx(found.path, config, threads)
    else:
        model = _compiled(found.path, config, threads)
    return _checked(model, config)


def _compiled(source: Any, config: ModelConfig, threads: int, **dims: Any) -> CompiledModel:
    return compile(
        source, threads=threads, dims={**dims, **config.dims}, precision=config.precision
    )


def _load_onnx(path: Path, config: ModelConfig, threads: int) -> LoadedModel:
    """Compile an ONNX model for a range of rows, if it can be; otherwise as it is."""
    # by name, because a server of compiled models needs no ONNX
    rebatch = import_module("afterglow.serve.rebatch")
    inputs, outputs = rebatch.first_dims(path)
    firsts = {*inputs, *outputs}
    rows = (1, config.max_batch)
    source: Any = path
    if firsts == {1} and not config.dims:
        source, name = rebatch.with_free_batch(path), rebatch.BATCH
    elif len(firsts) == 1 and isinstance(inputs[0], str):
        name = inputs[0]
    else:
        reason = "inputs and outputs do not have one first dimension in common"
        return _alone(path, config, threads, reason)
    if source is None or (name in config.dims and source is not path):
        return _alone(path, config, threads, "the model is too large to be rewritten")
    try:
        loaded = _checked(_compiled(source, config, threads, **{name: rows}), config)
    except AfterglowError as error:
        return _alone(path, config, threads, error.what)
    if loaded.max_batch > 1 and loaded.model.versions() and name not in config.dims:
        single = _compiled(source, config, threads, **{name: 1})
        return LoadedModel(loaded.model, loaded.max_batch, single=single)
    if loaded.max_batch > 1 or source is path:
        return loaded
    return _alone(path, config, threads, loaded.reason)


def _alone(path: Path, config: ModelConfig, threads: int, reason: str) -> LoadedModel:
    """The model as it is in the file, whose requests are not joined."""
    model = _compiled(path, config, threads)
    check_served(model)
    return LoadedModel(model, 1, reason)


def _checked(model: CompiledModel, config: ModelConfig) -> LoadedModel:
    """A model with how far its requests can be joined, which is tried."""
    check_served(model)
    wanted = config.max_batch or 1
    name = batch_dim(model)
    if wanted == 1 or name is None:
        reason = "" if wanted == 1 else "inputs and outputs have no dynamic first dimension"
        return LoadedModel(model, 1, reason)
    low, high, step = model.dims.get(name, (1, wanted, 1))
    if low > 1 or step > 1:
        return LoadedModel(model, 1, f"dimension {name!r} cannot be any number of rows")
    most = min(wanted, high)
    try:
        problem = _mixes_rows(model, name, min(most, ROWS_TRIED))
    except AfterglowError as error:
        problem = error.what
    return LoadedModel(model, 1 if problem else most, problem)


def check_served(model: CompiledModel) -> None:
    """Refuse what the protocol cannot have: states, and elements without a datatype."""
    if model.versions() and model.compiled.interface.states:
        raise UsageError(
            "the model keeps state from call to call, which requests of many clients would mix",
            help="serve language models as .gguf, whose conversations are kept apart",
        )
    for info in (*model.inputs, *model.outputs):
        if info.dtype is not None and datatype_of(info.dtype) is None:
            raise UsageError(f"{info.name!r} has elements {info.dtype}, which the protocol has not")
        if info.dtype is None and info in model.inputs:
            raise UsageError(f"{info.name!r} is not a tensor, which the protocol has not")


def batch_dim(model: CompiledModel) -> str | None:
    """The dimension that all inputs and outputs begin with; None if there is none."""
    firsts = {info.shape[0] if info.shape else None for info in (*model.inputs, *model.outputs)}
    first = next(iter(firsts)) if len(firsts) == 1 else None
    return first if isinstance(first, str) and first.isidentifier() else None


def _mixes_rows(model: CompiledModel, batch: str, rows: int) -> str:
    """Why rows of a batch must not be joined: what was computed together differs; "" if not."""
    generator = np.random.default_rng(0)
    feeds = [example_feed(model, generator, {batch: 1}) for _ in range(rows)]
    alone = [_outputs(model, feed) for feed in feeds]
    names = [info.name for info in model.inputs]
    together = _outputs(model, {n: np.concatenate([feed[n] for feed in feeds]) for n in names})
    for place, info in enumerate(model.outputs):
        expected = [outputs[place] for outputs in alone]
        if any(len(each) != 1 for each in expected) or len(together[place]) != rows:
            return f"output {info.name!r} does not have a row for each row of the inputs"
        if not _agree(together[place], np.concatenate(expected)):
            return f"output {info.name!r} of a row depends on the other rows"
    return ""


def _agree(left: Array, right: Array) -> bool:
    """Whether arrays are equal up to rounding."""
    if left.dtype.kind in "OSUb":
        return bool(np.array_equal(left, right))
    a, b = (array.astype(np.float64) for array in (left, right))
    finite = np.isfinite(b)
    scale = float(np.abs(b[finite]).max(initial=1e-6))
    tolerance = 1e-3 if left.dtype.itemsize > 2 else 2e-2
    near = np.abs(a - b)[finite & np.isfinite(a)] <= tolerance * scale
    return a.shape == b.shape and bool(near.all()) and bool((np.isfinite(a) == finite).all())


def _outputs(model: CompiledModel, feed: Mapping[str, Array]) -> list[Array]:
    return [np.asarray(array) for array in model.run(None, feed)]


def example_feed(
    model: CompiledModel, generator: np.random.Generator, extents: Mapping[str, int]
) -> dict[str, Array]:
    """Random inputs that a model takes; dimensions without an extent have their smallest."""
    known = {name: max(low, 1) for name, (low, _, _) in model.dims.items()} | dict(extents)
    return {info.name: _example(info, generator, known) for info in model.inputs}


def _example(info: TensorInfo, generator: np.random.Generator, extents: Mapping[str, int]) -> Array:
    shape = tuple(
        extent if isinstance(extent, int) else extents.get(extent or "", GUESSED_EXTENT)
        for extent in info.shape or ()
    )
    assert info.dtype is not None
    return random_array(info.dtype, shape, generator)


def check_signed(path: Path, key: bytes | None) -> None:
    """Refuse a compiled model that is not signed with the key, if there is one.

    The signature is the HMAC-SHA256 of the file, in hexadecimal, in FILE.agc.sig.
    """
    if key is None:
        return
    try:
        given = path.with_name(f"{path.name}.sig").read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        given = ""
    if not hmac.compare_digest(given, signature_of(path, key)):
        raise UsageError(
            f"{path.name} is not signed with the key of the server",
            help=f"sign it, and write the signature to {path.name}.sig",
        )


def signature_of(path: Path, key: bytes) -> str:
    """The signature of a file."""
    digest = hmac.new(key, digestmod=sha256)
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()
