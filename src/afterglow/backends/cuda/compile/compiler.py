"""From the texts of kernels to machine code, ahead of time: no GPU is needed, and no driver."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from afterglow.backends.backend import KernelCache
from afterglow.backends.cuda.compile.cubin import facts_of
from afterglow.backends.cuda.compile.processes import (
    LONGEST,
    TOOLS,
    Answer,
    Job,
    Progress,
    run_jobs,
)
from afterglow.backends.cuda.kernels.kernel import KernelSource
from afterglow.backends.cuda.target import CudaTarget
from afterglow.runtime.native.machine import usable_cores, usable_memory
from afterglow.support.digest import digest_of_texts
from afterglow.support.errors import InternalError, UsageError
from afterglow.support.lazy_dataclass import dataclass

INSTALL = "pip install 'afterglow[cuda]'"
_FORMAT = "cuda kernels 1"
"""Part of the keys of the cache: what is stored, and with which options it was compiled."""
_PROCESS_BYTES = 512 << 20
"""Memory of a process that compiles, with room."""
_POINTER_BYTES = 8
_OWN_POINTERS = 2
"""Pointers that Triton's kernels take behind those of the text."""
_HEAD_LINES = 40
"""Lines of a kernel that an error shows."""


@dataclass(frozen=True)
class Compiled:
    """A kernel as machine code, and what its launch must know."""

    cubin: bytes
    symbol: str
    shared: int
    """Bytes of shared memory of a block."""
    warps: int
    registers: int = 0
    """Of each thread."""
    stack: int = 0
    """Bytes of each thread in memory: more than none, and registers were spilled."""


class KernelRefusedError(InternalError):
    """A kernel that the compiler refuses, or that the target has no room for.

    Whoever has another kernel for the same step catches it; to everybody else it is a bug.
    """

    def __init__(self, name: str, why: str, text: str = "") -> None:
        super().__init__(
            f"kernel {name} does not compile: {why}", excerpt=text.splitlines()[:_HEAD_LINES]
        )
        self.name = name
        self.why = why


def compile_kernels(
    sources: Sequence[KernelSource],
    target: CudaTarget,
    cache: KernelCache | None = None,
    *,
    progress: Progress | None = None,
) -> dict[str, Compiled]:
    """Machine code of kernels by their names, or the error of the first that is refused."""
    compiled = try_kernels(sources, target, cache, progress=progress)
    for outcome in compiled.values():
        if isinstance(outcome, KernelRefusedError):
            raise outcome
    return {name: each for name, each in compiled.items() if isinstance(each, Compiled)}


def try_kernels(
    sources: Sequence[KernelSource],
    target: CudaTarget,
    cache: KernelCache | None = None,
    *,
    progress: Progress | None = None,
    seconds: float = LONGEST,
) -> dict[str, Compiled | KernelRefusedError]:
    """Machine code of each kernel by its name, or why it has none.

    They are compiled by as many processes as there are cores, unless the cache has them. Each may
    take so many seconds.
    """
    unique = {source.name: source for source in sources}
    if not unique:
        return {}
    identity = compiler_identity()
    keys = {name: _key(source, target, identity) for name, source in unique.items()}
    found = {name: _cached(cache, key) for name, key in keys.items()}
    missing = [source for name, source in unique.items() if found[name] is None]
    jobs = [job_of(source, target) for source in missing]
    answers = run_jobs(jobs, _processes(), seconds=seconds, progress=progress)
    fresh = {
        source.name: _outcome(source, answer, target)
        for source, answer in zip(missing, answers, strict=True)
    }
    if cache is not None:
        for name, outcome in fresh.items():
            if isinstance(outcome, Compiled):
                cache.put(keys[name], _packed(outcome))
    return {name: found[name] or fresh[name] for name in unique}


def compiler_identity() -> str:
    """What tells versions of the compiler apart, found without importing it."""
    spec = find_spec("triton")
    if spec is None or spec.origin is None:
        raise UsageError("CUDA needs triton to compile, which is not installed", help=INSTALL)
    # tools that are not those of the package
    tools = [os.environ.get(name, "") for name in TOOLS]
    package = Path(spec.origin).parent
    libraries = sorted(str(path) for path in package.glob("_C/libtriton*"))
    return digest_of_texts(
        [Path(spec.origin).read_text(), *map(_version_of_file, [*libraries, *tools])]
    )


def _version_of_file(path: str) -> str:
    """What tells versions of a file apart."""
    try:
        facts = os.stat(path)
    except OSError:
        return path
    return f"{path} {facts.st_size} {facts.st_mtime_ns}"


def _processes() -> int:
    """How many processes there is room for."""
    return max(1, min(usable_cores(), usable_memory() // _PROCESS_BYTES))


def job_of(source: KernelSource, target: CudaTarget) -> Job:
    """What compiles a kernel is told."""
    return {
        "name": source.name,
        "text": source.text,
        "types": source.types,
        "aligned": source.aligned,
        "arch": target.arch,
        "most_shared": target.shared_bytes,
        "warps": source.warps,
        "stages": source.stages,
        "fuses": source.fuses,
        "registers": source.registers,
    }


def _key(source: KernelSource, target: CudaTarget, identity: str) -> str:
    """Equal for kernels that compile to the same code, for targets with room for it."""
    return digest_of_texts([_FORMAT, identity, json.dumps(job_of(source, target))])


def _outcome(
    source: KernelSource, answer: Answer, target: CudaTarget
) -> Compiled | KernelRefusedError:
    """The kernel that a process compiled, if it is as it must be."""
    facts = answer.facts
    why = answer.error or _objection(source, facts, answer.code, target)
    if why:
        return KernelRefusedError(source.name, why, source.text)
    said = facts_of(answer.code, facts["symbol"])
    return Compiled(
        answer.code,
        facts["symbol"],
        facts["shared"],
        facts["warps"],
        said.registers,
        said.stack,
    )


def _objection(
    source: KernelSource, facts: Mapping[str, Any], code: bytes, target: CudaTarget
) -> str:
    """Why a kernel cannot be run, or nothing."""
    if facts["shared"] > target.shared_bytes:
        has = f"{target} has {target.shared_bytes}"
        return f"a block needs {facts['shared']} bytes of shared memory, {has}"
    if facts["scratch"]:
        return f"it needs {facts['scratch']} bytes of memory of its own"
    try:
        said = facts_of(code, facts["symbol"])
    except ValueError as error:
        return str(error)
    pointers = len(source.types) + _OWN_POINTERS
    if said.parameter_bytes != pointers * _POINTER_BYTES:
        return f"it takes {said.parameter_bytes} bytes of parameters, not {pointers} pointers"
    return ""


def _packed(kernel: Compiled) -> bytes:
    """A kernel as bytes: facts in a line of JSON, then the machine code."""
    facts = {name: value for name, value in asdict(kernel).items() if name != "cubin"}
    return json.dumps(facts).encode() + b"\n" + kernel.cubin


def _cached(cache: KernelCache | None, key: str) -> Compiled | None:
    data = None if cache is None else cache.get(key)
    if data is None:
        return None
    facts, _, cubin = bytes(data).partition(b"\n")
    return Compiled(cubin, **json.loads(facts))
