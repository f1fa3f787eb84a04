"""Saved models: a file that holds all that is needed to run a compiled model, and nothing else.

It is a container (see `support.container`): the metadata describe the model and its versions, and
each version has its code, its constants, and its program if the host runs some of it, as sections.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from afterglow.backends.cpu.artefact import Artefact
from afterglow.backends.cpu.executable import NativeExecutable
from afterglow.backends.cpu.saved import describe, restore, sections_of
from afterglow.memory import MemoryPlan
from afterglow.runtime.compiled import CompiledFunction
from afterglow.runtime.signature import Signature, TensorInfo
from afterglow.runtime.version import Version
from afterglow.support.container import Container, read_container, write_container
from afterglow.support.errors import UsageError
from afterglow.types import OutputForm, OutputKind
from afterglow.types.dtype import DTYPES

KIND = "afterglow model"


def save_versions(
    path: str | Path,
    signature: Signature,
    versions: Sequence[Version],
    *,
    is_static: bool,
    durable: bool = True,
) -> None:
    """Save what is compiled of a model; a file that is not durable may be lost with the power."""
    if not versions:
        raise UsageError(
            "nothing of the model is compiled yet: it has free dimensions",
            help="bind them with shapes= or dims=, or run it once",
        )
    sections = {
        f"{number}.{name}": data
        for number, version in enumerate(versions)
        for name, data in sections_of(_artefact(version)).items()
    }
    metadata = {
        "kind": KIND,
        "signature": _describe_signature(signature),
        "is_static": is_static,
        "versions": [_describe_version(version) for version in versions],
    }
    write_container(Path(path), metadata, sections, durable=durable)


@dataclass(frozen=True)
class SavedModel:
    """What a file holds of a model."""

    signature: Signature
    versions: tuple[Version, ...]
    is_static: bool


def read_versions(
    path: str | Path, threads: int | None, *, verify: bool = False, perf_map: bool = False
) -> SavedModel:
    """Load what was saved, to be run by so many threads.

    `verify` reads all of it to check it, `perf_map` tells the profiler `perf` about it.
    """
    container = read_container(Path(path))
    if verify:
        container.verify()
    metadata = container.metadata
    if metadata.get("kind") != KIND:
        raise UsageError(f"{path}: the file holds no model")
    versions = [
        _restore_version(data, container, f"{number}.", threads, perf_map)
        for number, data in enumerate(metadata["versions"])
    ]
    signature = _restore_signature(metadata["signature"])
    return SavedModel(signature, tuple(versions), metadata["is_static"])


def _artefact(version: Version) -> Artefact:
    executable = version.compiled.executable
    if not isinstance(executable, NativeExecutable):
        raise UsageError(
            "only models compiled for the CPU can be saved, and only without verify",
            help='use backend="cpu" and verify=False',
        )
    return executable.artefact


def _describe_version(version: Version) -> dict[str, Any]:
    compiled = version.compiled
    return {
        "artefact": describe(_artefact(version)),
        "plan": asdict(compiled.plan),
        "input_names": compiled.input_names,
        "output_names": compiled.output_names,
        "value_inputs": sorted(version.value_inputs),
        "forms": [[f.name, f.kind.value, f.count, list(f.keys)] for f in version.forms],
    }


def _restore_version(
    data: Mapping[str, Any], container: Container, name: str, threads: int | None, perf_map: bool
) -> Version:
    artefact = restore(data["artefact"], container, name)
    executable = NativeExecutable(artefact, threads, perf_map=perf_map)
    compiled = CompiledFunction(
        artefact.interface,
        MemoryPlan(**data["plan"]),
        executable,
        data["input_names"],
        data["output_names"],
    )
    forms = [
        OutputForm(name, OutputKind(kind), count, tuple(keys))
        for name, kind, count, keys in data["forms"]
    ]
    return Version(compiled, tuple(forms), frozenset(data["value_inputs"]))


def _describe_signature(signature: Signature) -> list[Any]:
    return [
        [[info.name, info.dtype and info.dtype.name, info.shape] for info in infos]
        for infos in (signature.inputs, signature.outputs)
    ]


def _restore_signature(data: list[Any]) -> Signature:
    inputs, outputs = (
        tuple(
            TensorInfo(name, dtype and DTYPES[dtype], None if shape is None else tuple(shape))
            for name, dtype, shape in infos
        )
        for infos in data
    )
    return Signature(inputs, outputs)
