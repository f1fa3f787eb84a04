"""From a planned program to kernels in OpenCL C, and the order in which they run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from afterglow.backends.launched.generated import Generated
from afterglow.backends.opencl.clc.types import HELD
from afterglow.backends.opencl.driver import DEVICE
from afterglow.backends.opencl.kernels.kernel import KernelSource
from afterglow.backends.opencl.limits import Limits
from afterglow.backends.opencl.planner import write
from afterglow.instr import Program, interface_of
from afterglow.runtime.artifact import Artifact

SOURCE, BINARY = "source", "binary"
"""Sections: the text of all kernels, and what a driver made of it."""
PRELUDE = "#pragma OPENCL FP_CONTRACT OFF\n"
"""Sums and products are rounded as they are written."""
DOUBLES = "#pragma OPENCL EXTENSION cl_khr_fp64 : enable\n"


def generate(program: Program, limits: Limits) -> Generated[KernelSource]:
    """The kernels of a planned program."""
    generated = Generated(program, lambda step: write(step, limits), _launch, HELD)
    generated.fill()
    return generated


def _launch(kernel: KernelSource) -> dict[str, Any]:
    return {"items": list(kernel.items), "group": list(kernel.group)}


def source_of(generated: Generated[KernelSource], limits: Limits) -> str:
    """The text of all kernels of a program."""
    prelude = PRELUDE + (DOUBLES if limits.double else "")
    return "\n".join([prelude, *_once(kernel.text for kernel in generated.kernels.values())])


def to_artifact(generated: Generated[KernelSource], limits: Limits, *, unchecked: bool) -> Artifact:
    """The program as data."""
    program = generated.program
    manifest = {"device": limits.to_json(), **generated.manifest(unchecked=unchecked)}
    sections = {
        SOURCE: source_of(generated, limits).encode(),
        **generated.sections(unchecked=unchecked),
    }
    return Artifact(DEVICE, interface_of(program), program.planned, manifest, sections)


def _once(texts: Iterable[str]) -> Iterator[str]:
    """Kernels with their helpers, each function once in all."""
    seen: set[str] = set()
    for text in texts:
        for part in text.split("\n\n"):
            if part not in seen:
                seen.add(part)
                yield part
