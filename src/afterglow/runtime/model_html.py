"""The head of a compiled model as HTML, which notebooks show."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict

from afterglow.runtime.compiled import MemoryReport
from afterglow.runtime.signature import TensorInfo

_SPECIAL = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;"})


def model_html(
    title: str,
    inputs: Sequence[TensorInfo],
    outputs: Sequence[TensorInfo],
    memory: MemoryReport | None,
    note: str,
) -> str:
    """What a model is, what it takes and gives, and the memory that it needs, as tables."""
    ports = [*(("input", str(info)) for info in inputs), *(("output", str(i)) for i in outputs)]
    parts = [f"<b>CompiledModel</b> {_text(title)}", _table(ports)]
    if memory is not None:
        parts.append(_table(_memory_rows(memory)))
    if note:
        parts.append(f"<i>{_text(note)}</i>")
    return f"<div>{''.join(f'<div>{part}</div>' for part in parts)}</div>"


def _memory_rows(memory: MemoryReport) -> Iterable[tuple[str, str]]:
    rows = asdict(memory)
    if memory.least_io_bytes == memory.io_bytes:
        del rows["least_io_bytes"]
    rows["total_bytes"] = memory.total_bytes
    return ((name.removesuffix("_bytes").replace("_", " "), f"{n:,} B") for name, n in rows.items())


def _table(rows: Iterable[tuple[str, str]]) -> str:
    style = ' style="text-align: left"'
    lines = (
        f"<tr><th{style}>{_text(name)}</th><td{style}>{_text(text)}</td></tr>"
        for name, text in rows
    )
    return f"<table>{''.join(lines)}</table>"


def _text(text: str) -> str:
    return text.translate(_SPECIAL)
