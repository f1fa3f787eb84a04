"""The parts of a partitioned model as models of their own, for processes that each run one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from afterglow.runtime.compiled import CompiledFunction
from afterglow.runtime.model import CompiledModel
from afterglow.runtime.partitioned.executable import PartitionedExecutable
from afterglow.runtime.partitioned.graph import PartGraph
from afterglow.runtime.partitioned.loaded import LoadedPart
from afterglow.runtime.saved import saved_bytes
from afterglow.runtime.signature import Signature, TensorInfo
from afterglow.runtime.version import Version
from afterglow.support.errors import UsageError
from afterglow.types import OutputForm, Port


@dataclass(frozen=True)
class Stage:
    """A part of a model as a model: its file, and the values that it reads and gives."""

    name: str
    """That of its logical device."""
    content: bytes
    """What `load` reads from a file."""
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    output_bytes: int
    """Bytes of the values that it gives."""
    memory: int
    """Bytes that it takes on its device: weights, arena, inputs and outputs."""
    threads: int | None = None
    """Threads of its logical device; None for all cores."""


@dataclass(frozen=True)
class Stages:
    """The parts of a model, in an order in which each follows those that it reads from."""

    inputs: tuple[str, ...]
    """The values that the inputs of the model are, in order."""
    outputs: tuple[str, ...]
    parts: tuple[Stage, ...]


def stages_of(model: CompiledModel) -> Stages:
    """The parts of a partitioned model; a model on one device is a single part."""
    version = _only_version(model)
    executable = version.compiled.executable
    if not isinstance(executable, PartitionedExecutable):
        return _single(model, version)
    graph = executable.graph
    _check_whole_batches(graph)
    return Stages(graph.inputs, graph.outputs, tuple(map(_stage, executable.parts)))


def _only_version(model: CompiledModel) -> Version:
    """The version of a model that has one, and whose runs do not depend on each other."""
    versions = model.versions()
    if len(versions) != 1 or not isinstance(versions[0], Version):
        raise UsageError(
            f"a model in stages has one compiled version, this one has {len(versions)}",
            help="compile it for one shape, or for a range of them: docs/shapes.md",
        )
    version = versions[0]
    if version.compiled.interface.states:
        raise UsageError(
            "a model that keeps state cannot run in stages: requests would mix their states",
            help="pass the state as inputs and outputs, or run the model on one machine",
        )
    return version


def _check_whole_batches(graph: PartGraph) -> None:
    if graph.rows or graph.joined:
        raise UsageError(
            "a model whose batches are divided over devices has no stages",
            help="compile it without split_batch, and use several replicas of the whole model",
        )


def _single(model: CompiledModel, version: Version) -> Stages:
    """All of a model as one stage."""
    inputs = tuple(info.name for info in model.inputs)
    outputs = tuple(info.name for info in model.outputs)
    interface = version.compiled.interface
    stage = Stage(
        "model",
        model.saved_bytes(),
        inputs,
        outputs,
        _port_bytes(interface.outputs),
        version.compiled.memory.total_bytes,
    )
    return Stages(inputs, outputs, (stage,))


def _stage(loaded: LoadedPart) -> Stage:
    part = loaded.part
    interface = part.artifact.interface
    compiled = CompiledFunction(
        interface,
        part.artifact.plan,
        loaded.executable,
        part.inputs,
        part.outputs,
        artifact=part.artifact,
    )
    version = Version(compiled, tuple(OutputForm(name) for name in part.outputs))
    signature = Signature(
        _infos(part.inputs, interface.inputs), _infos(part.outputs, interface.outputs)
    )
    return Stage(
        loaded.name,
        saved_bytes(signature, version),
        part.inputs,
        part.outputs,
        _port_bytes(interface.outputs),
        loaded.nbytes,
        part.device.threads,
    )


def _infos(names: Sequence[str], ports: Sequence[Port]) -> tuple[TensorInfo, ...]:
    return tuple(TensorInfo.of(name, port.type) for name, port in zip(names, ports, strict=True))


def _port_bytes(ports: Sequence[Port]) -> int:
    return sum(port.type.nbytes for port in ports)
