"""A compiled program as data that a file can hold, and back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np

from afterglow.backends.cpu.artefact import Artefact, Host, Native
from afterglow.backends.cpu.image import FilePart, Image
from afterglow.backends.cpu.target import Caches, Target
from afterglow.graph import Function, Subgraph
from afterglow.graph.function import subgraphs_of
from afterglow.instr import (
    Interface,
    OpInstr,
    Port,
    Program,
    Region,
    Stack,
    parse_program,
    print_program,
)
from afterglow.support.container import Container
from afterglow.support.errors import UnsupportedError
from afterglow.types import TensorType
from afterglow.types.dtype import DTYPES, string

CODE, CONSTANTS, POOL, PROGRAM = "code", "constants", "pool", "program"
"""Sections of a file, each behind the name of the version that it belongs to."""


def describe(artefact: Artefact) -> dict[str, Any]:
    """All but the bytes of code and constants, as what JSON can hold."""
    return {
        "target": asdict(artefact.target),
        "interface": {
            kind: [_describe_port(port) for port in ports]
            for kind, ports in vars(artefact.interface).items()
        },
        "image": artefact.image.describe(),
        "parts": [
            [part.index] if isinstance(part, Host) else [part.main, part.steps, part.work]
            for part in artefact.parts
        ],
        "arena_bytes": artefact.arena_bytes,
        "workspace_bytes": artefact.workspace_bytes,
        "scratch_bytes": artefact.scratch_bytes,
        "host_constants": dict(artefact.host_constants),
        "host_texts": _texts(artefact),
        "functions": _functions(artefact),
    }


def sections_of(artefact: Artefact) -> dict[str, bytes | memoryview]:
    """Code, constants, the pool's code, and the program if the host runs some of it."""
    sections: dict[str, bytes | memoryview] = {
        CODE: artefact.image.code,
        CONSTANTS: artefact.constants.data,
    }
    if artefact.pool is not None:
        sections[POOL] = artefact.pool.to_bytes()
    if artefact.uses_host:
        assert artefact.program is not None
        _check_savable(artefact)
        sections[PROGRAM] = print_program(artefact.program).encode()
    return sections


def restore(data: Mapping[str, Any], container: Container, version: str) -> Artefact:
    """The compiled program that was described so; its sections begin with the version's name."""
    constants = np.frombuffer(container.section(version + CONSTANTS), np.uint8)
    parts = [Host(part[0]) if len(part) == 1 else Native(*part) for part in data["parts"]]
    program = None
    if version + PROGRAM in container:
        text = bytes(container.section(version + PROGRAM)).decode()
        program = _restore_program(text, constants, data)
    descriptor, offset = container.locate(version + CODE)
    return Artefact(
        target=_restore_target(data["target"]),
        interface=_restore_interface(data["interface"]),
        image=Image.of(data["image"], container.section(version + CODE)),
        constants=constants,
        parts=tuple(parts),
        arena_bytes=data["arena_bytes"],
        workspace_bytes=data["workspace_bytes"],
        scratch_bytes=data["scratch_bytes"],
        host_constants=data["host_constants"],
        pool=Image.from_bytes(container.section(version + POOL)),
        program=program,
        code_file=FilePart(descriptor, offset),
    )


def _describe_port(port: Port) -> list[Any]:
    return [port.name, port.type.dtype.name, list(port.type.shape), port.lent]


def _restore_interface(data: Mapping[str, Any]) -> Interface:
    ports = {
        kind: tuple(
            Port(name, TensorType(DTYPES[dtype], tuple(shape)), lent)
            for name, dtype, shape, lent in described
        )
        for kind, described in data.items()
    }
    return Interface(**ports)


def _restore_target(data: Mapping[str, Any]) -> Target:
    fields = {**data, "features": tuple(data["features"]), "caches": Caches(**data["caches"])}
    return Target(**fields)


def _texts(artefact: Artefact) -> dict[str, list[str]]:
    """Constants of texts that the host reads: they are no bytes."""
    constants = artefact.program.constants if artefact.uses_host and artefact.program else []
    texts = (buffer for buffer in constants if buffer.type.dtype is string)
    return {b.name: [str(text) for text in np.asarray(b.data).reshape(-1)] for b in texts}


def _functions(artefact: Artefact) -> list[str]:
    """The names of functions that machine code runs, but that the program for the host names."""
    steps = artefact.program.body if artefact.uses_host and artefact.program else []
    carried = (subgraphs_of(step.op) for step in steps if isinstance(step, OpInstr))
    return [subgraph.function.name for subgraphs in carried for subgraph in subgraphs]


def _check_savable(artefact: Artefact) -> None:
    assert artefact.program is not None
    for part in artefact.parts:
        step = artefact.program.body[part.index] if isinstance(part, Host) else None
        steps = step.body if isinstance(step, Stack) else (step,)
        for each in steps:
            if isinstance(each, OpInstr) and subgraphs_of(each.op):
                raise UnsupportedError(
                    f"a model whose {each.op.mnemonic} runs on the host cannot be saved",
                    where=each.origin,
                    help="keep the source model, and compile it where it is used",
                )


def _restore_program(text: str, constants: Any, data: Mapping[str, Any]) -> Program:
    """The program, with those of its constants that the host reads."""
    functions = {name: Subgraph(Function(name)) for name in data["functions"]}
    program = parse_program(text, functions=functions)
    offsets, texts = data["host_constants"], data["host_texts"]
    for buffer in program.constants:
        assert buffer.region is Region.CONSTANT
        if buffer.name in texts:
            buffer.data = np.array(texts[buffer.name], object).reshape(buffer.type.shape)
        elif buffer.name in offsets:
            start = offsets[buffer.name]
            raw = constants[start : start + buffer.type.nbytes]
            buffer.data = raw.view(buffer.type.dtype.numpy).reshape(buffer.type.shape)
    return program
