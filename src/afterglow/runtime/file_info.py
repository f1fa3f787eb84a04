"""What compiled files hold, read from their metadata: no code of a file is loaded or run."""

from __future__ import annotations

import json
import mmap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import Any

from afterglow.runtime.library import SUFFIXES as LIBRARIES
from afterglow.runtime.library_file import check_library
from afterglow.runtime.native.machine import Needs, architecture_of, unlisted_features
from afterglow.runtime.saved import KIND, LAYOUT
from afterglow.support.container import Container, is_container, read_container
from afterglow.support.errors import UsageError
from afterglow.support.lazy_dataclass import dataclass
from afterglow.support.regular_file import open_regular

_DESCRIPTION = b'{\n  "format":'
"""How the description of a bundle begins, in its file and in its library."""


@dataclass(frozen=True)
class ProgramInfo:
    """A program of a compiled file, or a part of one that a device runs."""

    name: str
    device: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    target: str
    features: tuple[str, ...]
    missing: tuple[str, ...]
    """What it needs and the system of this machine does not list."""
    arena_bytes: int
    scratch_bytes: int
    """For each thread."""
    weight_bytes: int
    code_bytes: int
    state_bytes: int
    parts: tuple[ProgramInfo, ...] = ()


@dataclass(frozen=True)
class CompiledInfo:
    """What a compiled file holds."""

    kind: str
    format: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    programs: tuple[ProgramInfo, ...]
    made: Mapping[str, Any] = field(default_factory=dict)
    """What it was made from: the version of the compiler, files, options."""
    needs_compiler: bool = False
    """Whether the rest of it is compiled as it runs."""
    files: tuple[Path, ...] = ()
    """What belongs to it."""


def compiled_info(path: Path) -> CompiledInfo | None:
    """What a saved model, the library of a bundle or its folder holds; None for other files."""
    try:
        if path.is_dir():
            return _folder_info(path)
        if path.suffix in LIBRARIES:
            check_library(path)
            return _bundle_info(_library_description(path), path.parent)
        with open_regular(path) as file:
            beginning = file.read(64)
        if is_container(beginning):
            return _saved_info(read_container(path))
        return _bundle_info(_parsed(path), path.parent) if path.suffix == ".json" else None
    except OSError as problem:
        raise UsageError(f"{path}: cannot be read: {(problem.strerror or '').lower()}") from None
    except (KeyError, TypeError, ValueError, IndexError) as problem:
        raise UsageError(
            f"{path}: its description cannot be read: {type(problem).__name__}: {problem}",
            help="compile or export the model again",
        ) from None


def _saved_info(container: Container) -> CompiledInfo:
    metadata = container.metadata
    if metadata.get("kind") != KIND or metadata.get("layout") != LAYOUT:
        raise UsageError(
            f"{container.path}: the file was saved by another version of Afterglow",
            help="compile the model again with this version",
        )
    inputs, outputs = (
        tuple(_info_text(*info) for info in infos) for infos in metadata["signature"]
    )
    programs = tuple(
        _stored_program(container, each, f"version {number}")
        for number, each in enumerate(_wholes(metadata["versions"]))
    )
    return CompiledInfo(
        "compiled model",
        f"layout {LAYOUT}",
        inputs,
        outputs,
        programs,
        metadata.get("made") or {},
        metadata["source"] is not None,
        (container.path,),
    )


def _info_text(name: str, dtype: str | None, shape: Sequence[Any] | None, *_: Any) -> str:
    extents = "…" if shape is None else ", ".join("?" if e is None else str(e) for e in shape)
    return f"{name}: {dtype or '?'}[{extents}]"


def _wholes(versions: Sequence[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    """All programs of versions, those of segmented ones too."""
    for each in versions:
        if "artifact" in each:
            yield each
            continue
        if each["first"] is not None:
            yield each["first"]
        yield from _wholes(each["rest"]["versions"])


def _stored_program(container: Container, data: Mapping[str, Any], name: str) -> ProgramInfo:
    return _artifact_info(container, data["artifact"], f"{data['number']}.", name)


def _artifact_info(
    container: Container, artifact: Mapping[str, Any], prefix: str, name: str
) -> ProgramInfo:
    manifest, ports = artifact["manifest"], artifact["interface"]
    parts = tuple(
        _artifact_info(container, part["artifact"], f"{prefix}part{place}.", part["device"]["name"])
        for place, part in enumerate(manifest.get("parts", ()))
        if isinstance(part, dict) and "artifact" in part
    )
    needs = manifest.get("needs") or {"target": "", "architecture": "", "features": ()}
    known = Needs(needs["target"], needs["architecture"], tuple(needs["features"]))
    own = {name.removeprefix(prefix): name for name in container.names if name.startswith(prefix)}
    return ProgramInfo(
        name,
        artifact["device"],
        tuple(_port_text(port) for port in ports["inputs"]),
        tuple(_port_text(port) for port in ports["outputs"]),
        known.target,
        known.features,
        tuple(unlisted_features(known)) if needs["target"] else (),
        artifact["plan"]["arena_bytes"],
        manifest.get("scratch_bytes", 0),
        _size(container, own.get("constants")),
        _size(container, own.get("code")),
        sum(_port_bytes(port) for port in ports["states"]),
        parts,
    )


def _size(container: Container, section: str | None) -> int:
    return 0 if section is None else len(container.section(section))


def _port_text(port: Sequence[Any]) -> str:
    return f"{port[0]}: {port[1]}[{', '.join(map(str, port[2]))}]"


def _port_bytes(port: Sequence[Any]) -> int:
    """Of a state; 0 if its size depends on the run."""
    bits = int("".join(filter(str.isdigit, port[1])) or 8)
    count = 1
    for extent in port[2]:
        count *= extent if isinstance(extent, int) else 0
    return count * bits // 8


def _folder_info(folder: Path) -> CompiledInfo:
    """What a bundle holds, by the description in its folder."""
    for path in sorted(folder.glob("*.json")):
        with path.open("rb") as file:
            if file.read(len(_DESCRIPTION)) == _DESCRIPTION:
                return _bundle_info(_parsed(path), folder)
    raise UsageError(
        f"{folder}: the folder has no description of a bundle",
        help="give the folder that `afterglow compile --bundle` wrote",
    )


def _parsed(path: Path) -> dict[str, Any]:
    found = json.loads(path.read_bytes())
    if not isinstance(found, dict) or "entries" not in found:
        raise UsageError(f"{path}: the file is no description of a bundle")
    return found


def _library_description(path: Path) -> dict[str, Any]:
    """The description beside a library, or the one that it holds; the library is not loaded."""
    beside = path.with_name(f"{path.stem.removeprefix('lib')}.json")
    if beside.exists():
        return _parsed(beside)
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        start = data.find(_DESCRIPTION)
        end = data.find(b"\0", start)
        text = data[start:end] if 0 <= start < end else b""
    if not text:
        raise UsageError(
            f"{path}: the library has no description of a model",
            help="give a library that `afterglow compile --bundle --shared` wrote",
        )
    found: dict[str, Any] = json.loads(text)
    return found


def _bundle_info(data: Mapping[str, Any], folder: Path) -> CompiledInfo:
    target, entries = data["target"], data["entries"]
    architecture = architecture_of(target["triple"]) or target["triple"]
    needs = Needs(target["name"], architecture, tuple(target["features"]))
    programs = tuple(_entry_info(data, entry, needs) for entry in entries)
    files = (path for path in sorted(folder.iterdir()) if data["name"] in path.name)
    made = {"afterglow": data["afterglow"], "digest": data["digest"], **(data.get("made") or {})}
    return CompiledInfo(
        "bundle",
        f"format {data['format']}",
        programs[0].inputs,
        programs[0].outputs,
        programs,
        made,
        files=tuple(path for path in files if path.is_file()),
    )


def _entry_info(data: Mapping[str, Any], entry: Mapping[str, Any], needs: Needs) -> ProgramInfo:
    ports = {
        role: tuple(f"{p['name']}: {p['dtype']}[{', '.join(map(str, p['shape']))}]" for p in found)
        for role, found in ((role, entry[role]) for role in ("inputs", "outputs"))
    }
    return ProgramInfo(
        entry["prefix"],
        "cpu",
        ports["inputs"],
        ports["outputs"],
        needs.target,
        needs.features,
        tuple(unlisted_features(needs)),
        entry["arena_bytes"],
        entry["scratch_bytes"],
        data["weights"]["bytes"],
        data["code_bytes"],
        sum(port["bytes"] for port in entry["states"]),
    )
