"""From a planned program to a bundle for GPUs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from afterglow.backends.bundling.fields import identifier
from afterglow.backends.capabilities import BundleEntry
from afterglow.backends.cuda.bundle.code import GpuCode
from afterglow.backends.cuda.bundle.export import write_bundle
from afterglow.backends.cuda.target import EMULATED
from afterglow.instr import Instr, OpInstr, Program, Stack
from afterglow.runtime.artifact import Artifact
from afterglow.runtime.bundle import Bundle, BundleRequest
from afterglow.support.errors import UnsupportedError, UsageError
from afterglow.support.lazy_dataclass import dataclass

MOST_LISTED = 20
"""Nodes that an error lists."""
_TAKEN = ("main", "afterglow")


@dataclass(frozen=True)
class CudaBundle:
    """A program for GPUs, ready to be written."""

    code: GpuCode

    def write(self, folder: Path, *, shared: bool, force: bool, never: Sequence[Path]) -> Bundle:
        """Write all files of the bundle into a folder."""
        if shared:
            raise UsageError(
                "a bundle for CUDA has no shared library",
                help="save the model as FILE.agc to load it in Python; in C, compile NAME.c",
            )
        return write_bundle(self.code, folder, force=force, never=never)


def bundle_for_cuda(
    name: str,
    entries: Sequence[BundleEntry],
    request: BundleRequest,
    compile: Callable[[Program], Artifact],
    host_steps: Callable[[Program], Sequence[tuple[Instr, str]]],
) -> CudaBundle:
    """A program, compiled for the target, as a bundle whose symbols begin with a name."""
    _check_request(entries, request)
    (entry,) = entries
    _refuse_host_steps(host_steps(entry.program))
    symbol = identifier(name)
    symbol = f"{symbol}_model" if symbol in _TAKEN else symbol
    made = compile(entry.program)
    if made.manifest["target"]["name"] == EMULATED:
        raise UsageError(
            "a bundle for CUDA is machine code, which there is none of for the emulator",
            help="name a kind of GPU, such as --target sm_90",
        )
    return CudaBundle(GpuCode(symbol, made, entry.input_names, entry.output_names))


def _check_request(entries: Sequence[BundleEntry], request: BundleRequest) -> None:
    if len(entries) != 1:
        raise UsageError(
            f"a bundle for CUDA has one program, and {len(entries)} are asked for",
            help="write a bundle for each shape or function",
        )
    given: dict[str, Any] = {
        "embed-weights": request.embed_weights,
        "freestanding": request.freestanding,
    }
    for option in (name for name, is_set in given.items() if is_set):
        raise UsageError(
            f"a bundle for CUDA cannot be written with --{option}",
            help="its launcher needs the C library, and reads the weights from a file",
        )


def _refuse_host_steps(steps: Sequence[tuple[Instr, str]]) -> None:
    if not steps:
        return
    lines = [f"{_shown(instruction)}: {reason}" for instruction, reason in steps]
    more = [f"and {len(lines) - MOST_LISTED} more"] if len(lines) > MOST_LISTED else []
    raise UnsupportedError(
        f"a bundle has no host to run {len(steps)} nodes of the model",
        excerpt=[*lines[:MOST_LISTED], *more],
        help="compile the part of the model that computes with numbers",
    )


def _shown(instruction: Instr) -> str:
    steps = instruction.body if isinstance(instruction, Stack) else (instruction,)
    shown = [f"{s.op.mnemonic} ({s.origin})" for s in steps if isinstance(s, OpInstr)]
    return ", ".join(shown) or type(instruction).__name__.lower()
