"""A process that compiles kernels: run as a script, it knows nothing of the rest of Afterglow.

It reads jobs from its standard input and writes results to its standard output until the input
ends. Both are frames: two lengths of 4 bytes, little endian, then a header in JSON and bytes. What
Triton and its tools print goes to the standard error instead.
"""

from __future__ import annotations

import json
import linecache
import os
import struct
import sys
from collections.abc import Callable
from importlib import import_module
from typing import IO, Any

_LENGTHS = struct.Struct("<II")
_WARP = 32
_ALIGNMENT = 16
"""Bytes of which an aligned pointer is a multiple."""


def write_frame(stream: IO[bytes], header: dict[str, Any], data: bytes = b"") -> None:
    """Send a header and bytes."""
    text = json.dumps(header).encode()
    stream.write(_LENGTHS.pack(len(text), len(data)) + text + data)
    stream.flush()


def read_frame(stream: IO[bytes]) -> tuple[dict[str, Any], bytes] | None:
    """The next header and bytes; None at the end of the stream."""
    lengths = stream.read(_LENGTHS.size)
    if len(lengths) < _LENGTHS.size:
        return None
    text, data = _LENGTHS.unpack(lengths)
    body = stream.read(text + data)
    if len(body) < text + data:
        return None
    return json.loads(body[:text]), body[text:]


def function_of(name: str, text: str) -> Any:
    """The Triton function of that name in the text of a module, which needs no file."""
    file = f"<kernel {name}>"
    # Triton asks for the source of the function: `inspect` finds it here
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    module: dict[str, Any] = {"__name__": file, "__file__": file}
    exec(compile(text, file, "exec"), module)
    return module[name]


class TooLargeError(Exception):
    """A kernel whose blocks need more shared memory than there is."""

    def __init__(self, shared: int) -> None:
        super().__init__(f"{shared} bytes of shared memory")
        self.shared = shared


def compile_job(job: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
    """Facts about a kernel once it is compiled, and its cubin.

    All that may differ between versions of Triton is here.
    """
    triton = import_module("triton")
    triton.knobs.runtime.add_stages_inspection_hook = _check_before_assembler(job["most_shared"])
    target = import_module("triton.backends.compiler").GPUTarget("cuda", job["arch"], _WARP)
    source = import_module("triton.compiler").ASTSource(
        fn=function_of(job["name"], job["text"]),
        signature={f"p{index}": type for index, type in enumerate(job["types"])},
        attrs={
            (index,): [["tt.divisibility", _ALIGNMENT]]
            for index, is_aligned in enumerate(job["aligned"])
            if is_aligned
        },
    )
    options = {
        "num_warps": job["warps"],
        "num_stages": job["stages"],
        "enable_fp_fusion": job["fuses"],
        "maxnreg": job["registers"] or None,
        # libdevice keeps numbers that are smaller than the smallest normal one
        "enable_reflect_ftz": False,
    }
    kernel = triton.compile(source, target=target, options=options)
    facts = kernel.metadata
    scratch = ("global_scratch_size", "profile_scratch_size")
    header = {
        "symbol": facts.name,
        "shared": facts.shared,
        "warps": facts.num_warps,
        "scratch": sum(getattr(facts, size, 0) for size in scratch),
    }
    return header, kernel.asm["cubin"]


def _check_before_assembler(most_shared: int) -> Callable[..., Any]:
    """A hook of Triton's for the stages of a compilation.

    A kernel that is far too large takes the assembler minutes: it is refused before.
    """

    def hook(*arguments: Any) -> Any:
        if not arguments:  # newer versions ask what tells this hook from others
            return "", ""
        stages = arguments[1]
        assemble = stages["cubin"]

        def check(source: Any, metadata: dict[str, Any]) -> Any:
            if metadata["shared"] > most_shared:
                raise TooLargeError(metadata["shared"])
            return assemble(source, metadata)

        stages["cubin"] = check
        return None

    return hook


def answer(job: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
    """What comes of a job: `compile_job`, or the error."""
    try:
        return compile_job(job)
    except TooLargeError as error:
        return {"shared": error.shared}, b""
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"}, b""


def main() -> None:
    """Answer jobs until there are no more."""
    results = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    while frame := read_frame(sys.stdin.buffer):
        write_frame(results, *answer(frame[0]))


if __name__ == "__main__":
    main()
