"""Machine code as an artifact, and back."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any, TypeAlias

import numpy as np

from afterglow.runtime.artifact import Artifact, Section
from afterglow.runtime.native.image import Image
from afterglow.runtime.native.load import FilePart
from afterglow.runtime.native.machine import Needs
from afterglow.runtime.native.program import CheckedIndex, Host, HostProgram, Native, NativeProgram
from afterglow.types import Array, MemoryPlan
from afterglow.types.extent import Dim

DEVICE = "cpu"
"""The name of the device that runs machine code of the host."""
CODE, CONSTANTS, POOL, STEPS = "code", "constants", "pool", "steps"
"""Sections of an artifact; those of what the host runs begin with `HOST`."""
HOST = "host."

RestoreHost: TypeAlias = Callable[[Mapping[str, Any], Mapping[str, Section], Array], HostProgram]
"""From a manifest, sections and the block of constants to what the host runs of a program."""


def to_artifact(native: NativeProgram, plan: MemoryPlan) -> Artifact:
    """A program in machine code, as data."""
    host = native.host
    sections: dict[str, Section] = {
        CODE: native.image.code,
        CONSTANTS: native.constants.data,
        POOL: native.pool.to_bytes(),
        STEPS: native.step_text,
    }
    if host is not None:
        sections.update((HOST + name, data) for name, data in host.sections().items())
    return Artifact(DEVICE, native.interface, plan, _manifest(native), sections)


def _manifest(native: NativeProgram) -> dict[str, Any]:
    return {
        "needs": asdict(native.needs),
        "image": native.image.describe(),
        "parts": [
            [part.index] if isinstance(part, Host) else part.describe() for part in native.parts
        ],
        "scratch_bytes": native.scratch_bytes,
        "checks": [check.describe() for check in native.checks],
        "may_run_long": native.may_run_long,
        "host": None if native.host is None else native.host.describe(),
    }


def from_artifact(artifact: Artifact, restore_host: RestoreHost) -> NativeProgram:
    """The program in machine code that an artifact holds; nothing of it is copied."""
    manifest, sections = artifact.manifest, artifact.sections
    constants = np.frombuffer(sections[CONSTANTS], np.uint8)
    located, dims = artifact.locate(CODE), artifact.interface.dims
    host = None
    if manifest["host"] is not None:
        names = [name for name in sections if name.startswith(HOST)]
        parts = {name.removeprefix(HOST): sections[name] for name in names}
        host = restore_host(manifest["host"], parts, constants)
    return NativeProgram(
        needs=_restore_needs(manifest["needs"]),
        interface=artifact.interface,
        image=Image.of(manifest["image"], sections[CODE]),
        constants=constants,
        parts=tuple(_restore_part(part, dims) for part in manifest["parts"]),
        arena_bytes=artifact.plan.arena_bytes,
        scratch_bytes=manifest["scratch_bytes"],
        pool=Image.from_bytes(sections[POOL]),
        host=host,
        code_file=None if located is None else FilePart(*located),
        checks=tuple(CheckedIndex.restore(check, dims) for check in manifest["checks"]),
        may_run_long=manifest["may_run_long"],
        step_text=sections[STEPS],
    )


def _restore_part(data: Sequence[Any], dims: Sequence[Dim]) -> Native | Host:
    return Host(*data) if len(data) == 1 else Native.restore(data, dims)


def _restore_needs(data: Mapping[str, Any]) -> Needs:
    return Needs(data["target"], data["architecture"], tuple(data["features"]))
