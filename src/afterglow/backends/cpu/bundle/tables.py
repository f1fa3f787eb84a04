"""Texts and tables that a bundle has about itself."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from afterglow.backends.cpu.bundle.code import EntryCode
from afterglow.backends.cpu.calls import Call, Segment, group_calls
from afterglow.backends.cpu.emitter import Emitter, Module, Pointer, minimum
from afterglow.backends.cpu.types import POINTER
from afterglow.instr import Instr, OpInstr, Stack
from afterglow.types.dtype import i32, u8, u32

_LONGEST = 120
"""Characters of a step's name: a step may be many small kernels in a row."""


def step_names(segments: Sequence[Segment]) -> list[str]:
    """A name for each step: its kernels, and the nodes of the model that they compute."""
    names = []
    for segment in segments:
        origins = iter(segment.origins)
        for calls in group_calls(segment.calls):
            names.append(_step_name(calls, [next(origins) for _ in calls]))
    return names


def _step_name(calls: Sequence[Call], origins: Sequence[Instr]) -> str:
    kernels = dict.fromkeys(call.function.symbol for call in calls)
    nodes = dict.fromkeys(node for origin in origins for node in _nodes(origin))
    text = f"{', '.join(kernels)} ({', '.join(nodes)})" if nodes else ", ".join(kernels)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."


def _nodes(instruction: Instr) -> list[str]:
    steps = instruction.body if isinstance(instruction, Stack) else (instruction,)
    return [step.origin for step in steps if isinstance(step, OpInstr) and step.origin]


def write_step_name(module: Module, prefix: str, names: Sequence[str]) -> None:
    """`NAME_step_name(i)`: the name of a step; an empty text if there is no such step."""
    texts = [name.encode("ascii", "replace") + b"\0" for name in (*names, "")]
    offsets = np.cumsum([0, *map(len, texts[:-1])]).astype(np.uint32)
    with module.function(f"{prefix}_step_name") as e:
        step = e.argument("step", u32)
        places = module.table(e, "step_name_offsets", offsets)
        whole = module.table(e, "step_names", np.frombuffer(b"".join(texts), np.uint8))
        place = places.load(e.index(minimum(step, step.like(len(names)))))
        e.return_pointer((whole + e.index(place)).cast(u8))


def write_entries(module: Module, name: str, entries: Sequence[EntryCode], embedded: bool) -> None:
    """`NAME_entries(count)`: a table of all programs, so that one can be chosen at run time."""
    rows = [_row(module, entry, embedded) for entry in entries]
    kind = rows[0][0]
    table = module.constant(
        f"{name}_entry_table",
        f"[{len(rows)} x {kind}]",
        f"[{', '.join(f'{kind} {value}' for _, value in rows)}]",
    )
    with module.function(f"{name}_entries") as e:
        count = e.pointer("count", i32)
        with e.when(~e.is_null(count)):
            count.store(e.constant(i32, len(rows)))
        e.return_pointer(_global(e, table))


def _global(e: Emitter, symbol: str) -> Pointer:
    return Pointer(e, u8, symbol)


def _row(module: Module, entry: EntryCode, embedded: bool) -> tuple[str, str]:
    """A struct `NAME_entry`: LLVM's type of it, and its value."""
    given = [] if embedded else [POINTER]
    functions = {
        "run": [POINTER, POINTER, *given],
        "run_team": [POINTER, POINTER, *given, POINTER],
        "self_check": [POINTER, *given, POINTER],
    }
    for function, parameters in functions.items():
        module.declare(f"{entry.prefix}_{function}", "i32", parameters)
    module.declare(f"{entry.prefix}_step_name", POINTER, ["i32"])
    text = entry.prefix.encode() + b"\0"
    symbol = module.constant(
        f"{entry.prefix}_entry_name",
        f"[{len(text)} x i8]",
        'c"' + "".join(f"\\{byte:02X}" for byte in text) + '"',
    )
    word = f"i{module.target.pointer_bits}"
    sizes = [
        entry.layout.size,
        entry.layout.scratch,
        entry.self_check_bytes,
        len(entry.steps),
    ]
    pointers = [symbol, *(f"@{entry.prefix}_{f}" for f in (*functions, "step_name"))]
    kinds = [POINTER] * len(pointers) + [word] * len(sizes)
    values = [f"ptr {symbol}" for symbol in pointers] + [f"{word} {size}" for size in sizes]
    return f"{{ {', '.join(kinds)} }}", f"{{ {', '.join(values)} }}"
