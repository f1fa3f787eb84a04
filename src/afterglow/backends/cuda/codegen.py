"""From a planned program to kernels in Triton's language, and from those to an artifact."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from afterglow.backends.cuda.compile import Compiled
from afterglow.backends.cuda.kernels.joined import join
from afterglow.backends.cuda.kernels.kernel import KernelSource
from afterglow.backends.cuda.planner import write
from afterglow.backends.cuda.sections import CUBIN, SOURCE
from afterglow.backends.cuda.target import DEVICE, CudaTarget
from afterglow.backends.cuda.tl.types import HELD
from afterglow.backends.launched.generated import Generated
from afterglow.instr import Program, interface_of
from afterglow.runtime.artifact import Artifact, Section


def generate(program: Program, target: CudaTarget) -> Generated[KernelSource]:
    """The kernels of a planned program."""
    generated = generated_for(program, target)
    generated.fill()
    return generated


def generated_for(program: Program, target: CudaTarget) -> Generated[KernelSource]:
    """The same, without any kernel yet."""

    def launch(kernel: KernelSource) -> dict[str, Any]:
        return {"grid": list(kernel.grid), "pdl": target.has_dependent_launch}

    return Generated(program, lambda step: write(step, target), launch, HELD, join)


def source_of(generated: Generated[KernelSource]) -> str:
    """The text of all kernels of a program, for people to read."""
    return "\n\n".join(kernel.text for kernel in generated.kernels.values())


def to_artifact(
    generated: Generated[KernelSource],
    compiled: Mapping[str, Compiled],
    target: CudaTarget,
    *,
    unchecked: bool,
) -> Artifact:
    """The program as data."""
    program = generated.program
    kernels = {
        name: {
            "section": f"{CUBIN}{name}",
            "symbol": made.symbol,
            "shared": made.shared,
            "warps": made.warps,
        }
        for name, made in compiled.items()
    }
    manifest = {
        "target": target.to_json(),
        "arch": target.arch,
        "kernels": kernels,
        **generated.manifest(unchecked=unchecked),
    }
    sections: dict[str, Section] = {
        SOURCE: source_of(generated).encode(),
        **{f"{CUBIN}{name}": made.cubin for name, made in compiled.items()},
        **generated.sections(unchecked=unchecked),
    }
    return Artifact(DEVICE, interface_of(program), program.planned, manifest, sections)
