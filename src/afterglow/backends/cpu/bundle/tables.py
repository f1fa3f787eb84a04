"""Strings and tables in which a bundle describes itself."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from afterglow.backends.capabilities import BundleExtent
from afterglow.backends.cpu.bundle.code import EntryCode
from afterglow.backends.cpu.llvm.emitter import (
    Emitter,
    Module,
    Pointer,
    differ,
    equal,
    minimum,
    select,
)
from afterglow.backends.cpu.llvm.types import POINTER
from afterglow.runtime.native.status import Status
from afterglow.types.dtype import boolean, i32, u8, u32


def write_step_name(module: Module, prefix: str, names: Sequence[str]) -> None:
    """`NAME_step_name(i)`: the name of a step; an empty string if there is no such step."""
    texts = [name.encode("ascii", "replace") + b"\0" for name in (*names, "")]
    offsets = np.cumsum([0, *map(len, texts[:-1])]).astype(np.uint32)
    with module.function(f"{prefix}_step_name") as e:
        step = e.argument("step", u32)
        places = module.table(e, "step_name_offsets", offsets)
        whole = module.table(e, "step_names", np.frombuffer(b"".join(texts), np.uint8))
        place = places.load(e.index(minimum(step, step.like(len(names)))))
        e.return_pointer((whole + e.index(place)).cast(u8))


def write_entries(
    module: Module,
    name: str,
    entries: Sequence[EntryCode],
    extents: Sequence[BundleExtent],
    embedded: bool,
) -> None:
    """`NAME_entries(count)`: a table of all programs, so that one can be chosen at run time.

    If extents tell them apart, `NAME_find` chooses.
    """
    rows = [_row(module, entry, embedded) for entry in entries]
    kind = f"{{ {', '.join(member.split()[0] for member in rows[0])} }}"
    values = ", ".join(f"{kind} {{ {', '.join(row)} }}" for row in rows)
    table = module.constant(f"{name}_entry_table", f"[{len(rows)} x {kind}]", f"[{values}]")
    with module.function(f"{name}_entries") as e:
        count = e.pointer("count", i32)
        with e.when(~e.is_null(count)):
            count.store(e.constant(i32, len(rows)))
        e.return_pointer(_global(e, table))
    if extents:
        _write_find(module, name, extents, table, len(rows[0]))


def _write_find(
    module: Module, name: str, extents: Sequence[BundleExtent], table: str, words: int
) -> None:
    """`NAME_find(extent, ..., entry)`: the row of the table, of so many words, for extents."""
    with module.function(f"{name}_find") as e:
        given = [e.argument(f"extent{place}", i32) for place in range(len(extents))]
        found = e.pointer("found", e.index_type)
        count = len(extents[0].values)
        row = e.index(count)
        for number in range(count):
            fits = e.constant(boolean, 1)
            for value, extent in zip(given, extents, strict=True):
                fits = fits & equal(value, e.constant(i32, extent.values[number]))
            row = select(fits, e.index(number), row)
        missing, fits = e.is_null(found), differ(row, e.index(count))
        status = select(fits, e.constant(i32, Status.OK), e.constant(i32, Status.EXTENT))
        with e.when(fits & ~missing):
            e.store_pointer(found, 0, _global(e, table) + row * words)
        e.return_(select(missing, e.constant(i32, Status.NULL), status))


def _global(e: Emitter, symbol: str) -> Pointer:
    """A table whose elements are as wide as addresses."""
    return Pointer(e, e.index_type, symbol)


def _row(module: Module, entry: EntryCode, embedded: bool) -> list[str]:
    """A struct `NAME_entry`: its members, all as wide as addresses, in LLVM's language."""
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
    return [*(f"ptr {symbol}" for symbol in pointers), *(f"{word} {size}" for size in sizes)]
