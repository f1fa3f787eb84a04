"""A compiled program as data that a file can hold, and back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from importlib import import_module
from typing import Any

import numpy as np

from afterglow.runtime.native.artefact import Artefact, CheckedIndex, Host, HostProgram, Native
from afterglow.runtime.native.image import Image
from afterglow.runtime.native.load import FilePart
from afterglow.runtime.native.machine import Needs
from afterglow.support.container import Container
from afterglow.types import Array, Interface, Port, TensorType
from afterglow.types.dtype import DTYPES

CODE, CONSTANTS, POOL, PROGRAM, STEPS = "code", "constants", "pool", "program", "steps"
"""Sections of a file, each behind the name of the version that it belongs to."""


def describe(artefact: Artefact) -> dict[str, Any]:
    """All but the bytes of code and constants, as what JSON can hold."""
    return {
        "needs": asdict(artefact.needs),
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
        "scratch_bytes": artefact.scratch_bytes,
        "checks": [check.describe() for check in artefact.checks],
        "may_run_long": artefact.may_run_long,
        "host": None if artefact.host is None else artefact.host.describe(),
    }


def sections_of(artefact: Artefact) -> dict[str, bytes | memoryview]:
    """Code, constants, the pool's code, names of steps, and the program if the host runs some."""
    sections: dict[str, bytes | memoryview] = {
        CODE: artefact.image.code,
        CONSTANTS: artefact.constants.data,
        POOL: artefact.pool.to_bytes(),
        STEPS: artefact.step_text,
    }
    if artefact.host is not None:
        sections[PROGRAM] = artefact.host.text().encode()
    return sections


def restore(data: Mapping[str, Any], container: Container, version: str) -> Artefact:
    """The compiled program that was described so; its sections begin with the version's name."""
    constants = np.frombuffer(container.section(version + CONSTANTS), np.uint8)
    parts = [Host(part[0]) if len(part) == 1 else Native(*part) for part in data["parts"]]
    host = None
    if data["host"] is not None:
        text = bytes(container.section(version + PROGRAM)).decode()
        host = _restore_host(text, constants, data["host"])
    descriptor, offset = container.locate(version + CODE)
    return Artefact(
        needs=_restore_needs(data["needs"]),
        interface=_restore_interface(data["interface"]),
        image=Image.of(data["image"], container.section(version + CODE)),
        constants=constants,
        parts=tuple(parts),
        arena_bytes=data["arena_bytes"],
        scratch_bytes=data["scratch_bytes"],
        pool=Image.from_bytes(container.section(version + POOL)),
        host=host,
        code_file=FilePart(descriptor, offset),
        checks=tuple(map(CheckedIndex.restore, data["checks"])),
        may_run_long=data["may_run_long"],
        step_text=container.section(version + STEPS),
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


def _restore_needs(data: Mapping[str, Any]) -> Needs:
    return Needs(data["target"], data["architecture"], tuple(data["features"]))


def _restore_host(text: str, constants: Array, data: Mapping[str, Any]) -> HostProgram:
    """What the host runs. The catalogue of ops is loaded only for models that need it here."""
    hosted = import_module("afterglow.backends.interpreter.hosted")
    restored: HostProgram = hosted.restore_hosted(text, constants, data)
    return restored
