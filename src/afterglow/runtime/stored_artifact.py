"""Artifacts without their sections, as what JSON can hold, and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, astuple, fields
from typing import Any

from afterglow.runtime.artifact import Artifact, Section
from afterglow.types import FillLevel, Interface, MemoryPlan, Port, TensorType
from afterglow.types.dtype import DTYPES
from afterglow.types.extent import Dim
from afterglow.types.extent.text import read_shape, spell_shape
from afterglow.types.quantization import read_quantization, spell_quantization


def describe_artifact(artifact: Artifact) -> dict[str, Any]:
    """All of an artifact but its sections, as JSON can hold it."""
    return {
        "device": artifact.device,
        "interface": {
            kind.name: [_describe_port(port) for port in getattr(artifact.interface, kind.name)]
            for kind in fields(artifact.interface)
        },
        "dims": list(map(astuple, artifact.interface.dims)),
        "plan": asdict(artifact.plan),
        "manifest": artifact.manifest,
    }


def restore_artifact(data: Mapping[str, Any], sections: Mapping[str, Section]) -> Artifact:
    """What was described so, with its sections."""
    return Artifact(
        data["device"],
        _restore_interface(data["interface"], [Dim(*dim) for dim in data["dims"]]),
        MemoryPlan(**data["plan"]),
        data["manifest"],
        sections,
    )


def _describe_port(port: Port) -> list[Any]:
    level = port.level and [port.level.axis, spell_shape((port.level.before, port.level.after))]
    shape = spell_shape(port.type.shape)
    quantization = spell_quantization(port.type.quantization)
    return [port.name, port.type.dtype.name, shape, port.donated, level, quantization]


def _restore_interface(data: Mapping[str, Any], dims: Sequence[Dim]) -> Interface:
    ports = {
        kind: tuple(_restore_port(port, dims) for port in described)
        for kind, described in data.items()
    }
    return Interface(**ports)


def _restore_port(data: Sequence[Any], dims: Sequence[Dim]) -> Port:
    name, dtype, shape, donated, level, *quantization = data
    filled = level and FillLevel(level[0], *read_shape(level[1], dims))
    type = TensorType(DTYPES[dtype], read_shape(shape, dims))
    type = type.quantized(read_quantization(*quantization))
    return Port(name, type, donated, filled)
