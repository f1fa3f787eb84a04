"""What the emulator has in place of machine code: the text, and what a launch must know."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from afterglow.backends.cuda.compile import Compiled
from afterglow.backends.cuda.kernels.kernel import KernelSource

_MARK = b"# emulated "


def emulated_kernels(sources: Sequence[KernelSource]) -> dict[str, Compiled]:
    """What `compile_kernels` gives for a GPU, by name."""
    return {
        source.name: Compiled(_encode(source), source.name, 0, source.warps) for source in sources
    }


def decode(code: bytes) -> tuple[dict[str, Any], str]:
    """Types and alignments of pointers, and the text; `ValueError` if it is none of ours."""
    head, _, text = code.partition(b"\n")
    if not head.startswith(_MARK):
        raise ValueError("the code is not for the emulator")
    facts: dict[str, Any] = json.loads(head.removeprefix(_MARK))
    return facts, text.decode()


def _encode(source: KernelSource) -> bytes:
    """The text, after a line of facts that is a comment of it."""
    facts = {"types": source.types, "aligned": source.aligned, "warps": source.warps}
    return _MARK + json.dumps(facts).encode() + b"\n" + source.text.encode()
