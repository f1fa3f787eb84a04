"""Saved models: files with everything that is needed to run a compiled model.

It is a container (see `support.container`): the metadata describe the model and its versions, and
each version has the sections of its artifact. A model with data-dependent shapes is partly compiled
as it runs: its file also has the graph IR of what lies behind the first boundaries, and the options
to compile it with.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from pathlib import Path
from typing import Any, TypeAlias

from afterglow.runtime.device import FindDevice, LoadOptions
from afterglow.runtime.saved_versions import AnyVersions, Resumer, VersionReader, VersionWriter
from afterglow.runtime.signature import Signature, TensorInfo
from afterglow.runtime.version import SourceLeft, Version
from afterglow.runtime.versions import Versions
from afterglow.support.container import (
    Container,
    container_parts,
    is_container,
    read_container,
    write_container,
)
from afterglow.support.errors import UsageError
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types.dtype import DTYPES
from afterglow.types.extent import walk_extents
from afterglow.types.quantization import read_quantization, spell_quantization

KIND = "afterglow model"
LAYOUT = 7
"""Counts changes of the metadata that readers must know about."""
GRAPH, WEIGHTS = "source.graph", "source.weights"
"""Sections of what is left of the source."""

Resume: TypeAlias = Callable[[SourceLeft], Resumer]
"""From what is left of a source to what compiles it."""


def save_versions(
    path: str | Path,
    signature: Signature,
    versions: Version | AnyVersions,
    source: SourceLeft | None = None,
    *,
    key: str | None = None,
    made: Mapping[str, Any] | None = None,
    durable: bool = True,
) -> None:
    """Save what is compiled of a model: its only version, or several for different shapes.

    `source` is what is needed to compile the rest of it. `key` says what the file is, for readers
    that expect something; `made` says what it was made from, for people. A file that is not durable
    may be lost with the power.
    """
    metadata, sections = _content(signature, versions, source, key, made)
    write_container(Path(path), metadata, sections, durable=durable)


def saved_bytes(
    signature: Signature,
    versions: Version | AnyVersions,
    source: SourceLeft | None = None,
    *,
    made: Mapping[str, Any] | None = None,
) -> bytes:
    """The bytes of the file that `save_versions` writes."""
    return b"".join(container_parts(*_content(signature, versions, source, made=made)))


def _content(
    signature: Signature,
    versions: Version | AnyVersions,
    source: SourceLeft | None,
    key: str | None = None,
    made: Mapping[str, Any] | None = None,
) -> tuple[dict[str, Any], dict[str, bytes | memoryview]]:
    """Metadata and sections of a file."""
    writer = VersionWriter()
    metadata = {
        "kind": KIND,
        "layout": LAYOUT,
        "key": key,
        "made": made,
        "signature": _describe_signature(signature),
        "is_static": isinstance(versions, Version),
        **_described(writer, versions),
        "source": None if source is None else source.options,
    }
    if source is not None:
        writer.sections.update({GRAPH: source.graph, WEIGHTS: source.weights})
    assert not any(walk_extents(metadata)), "JSON would hold ranged extents as numbers"
    return metadata, writer.sections


def check_replaceable(path: Path) -> None:
    """Refuse to save a model over a file that holds something else."""
    if not path.is_file():
        return
    with path.open("rb") as file:
        if not is_container(file.read(64)):
            raise UsageError(
                f"{path} already exists and is not a compiled model written by Afterglow",
                help="give another name, or force=True to replace it",
            )


def _described(writer: VersionWriter, versions: Version | AnyVersions) -> dict[str, Any]:
    if isinstance(versions, Version):
        return {"versions": [writer.version(versions)]}
    return writer.versions(versions)


@dataclass(frozen=True)
class SavedModel:
    """What a file holds of a model: one version if all shapes are known, or several."""

    signature: Signature
    static: Version | None
    versions: AnyVersions
    resumer: Resumer | None = None
    """What compiles the rest, if some of it is compiled as it runs."""
    made: Mapping[str, Any] = field(default_factory=dict)
    """What it was made from."""


def read_versions(
    path: str | Path,
    find_device: FindDevice,
    options: LoadOptions,
    *,
    key: str | None = None,
    resume: Resume | None = None,
) -> SavedModel:
    """Load what was saved on the devices that it is for.

    All of it is checked before anything is used; if there is a `key`, it must be saved with that.
    `resume` is asked if some of the model is compiled as it runs.
    """
    container = read_container(Path(path))
    _check_kind(container, key)
    metadata = container.metadata
    source = _source_left(container)
    resumer = None if source is None or resume is None else resume(source)
    reader = VersionReader(container, find_device, options, resumer)
    signature = _restore_signature(metadata["signature"])
    versions: AnyVersions = Versions()
    made = metadata.get("made") or {}
    if metadata["is_static"]:
        static = reader.whole(metadata["versions"][0])
        return SavedModel(signature, static, versions, made=made)
    reader.fill(versions, metadata)
    return SavedModel(signature, None, versions, resumer, made)


def _check_kind(container: Container, key: str | None) -> None:
    """Raise if a file is something else than a model, than a known layout, or than is expected."""
    path, metadata = container.path, container.metadata
    if metadata.get("kind") != KIND:
        raise UsageError(f"{path}: the file contains no model")
    if metadata.get("layout") != LAYOUT:
        raise UsageError(
            f"{path}: the file was saved by another version of Afterglow",
            help="compile the model again with this version",
        )
    if key is not None and metadata.get("key") != key:
        raise UsageError(f"{path}: the file contains a different model than its name says")


def _source_left(container: Container) -> SourceLeft | None:
    options = container.metadata["source"]
    if options is None:
        return None
    return SourceLeft(options, container.section(GRAPH), container.section(WEIGHTS))


def _describe_signature(signature: Signature) -> list[Any]:
    return [
        [_describe_info(info) for info in infos] for infos in (signature.inputs, signature.outputs)
    ]


def _describe_info(info: TensorInfo) -> list[Any]:
    dtype = info.dtype and info.dtype.name
    return [info.name, dtype, info.shape, spell_quantization(info.quantization)]


def _restore_signature(data: list[Any]) -> Signature:
    inputs, outputs = (tuple(_restore_info(*info) for info in infos) for infos in data)
    return Signature(inputs, outputs)


def _restore_info(
    name: str, dtype: str | None, shape: list[Any] | None, quantization: Any = None
) -> TensorInfo:
    found = None if shape is None else tuple(shape)
    known = DTYPES[dtype] if dtype else None
    return TensorInfo(name, known, found, read_quantization(quantization))
