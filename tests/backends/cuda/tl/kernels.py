"""Kernels of a few lines, whose code a test writes by hand."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from afterglow.backends.cuda.kernels.kernel import HEAD, KernelSource
from afterglow.backends.cuda.tl import Code, Pointer
from afterglow.backends.cuda.tl.types import spell_pointer
from afterglow.types import Array, DType
from afterglow.types.dtype import i32
from tests.backends.cuda.emulate import run_kernel
from tests.backends.items.emulated import compiled

NAME = "tried"


def tried(
    write: Callable[..., None],
    arrays: Sequence[Array],
    *,
    items: int = 0,
    index_type: DType = i32,
) -> str:
    """Run what `write` writes, given the code and a pointer to each array; the text.

    If there are `items`, they are a block, which is given after the code.
    """
    code = Code(shape=(items,) if items else (), index_type=index_type)
    pointers = [Pointer(code, DType.of(a.dtype), f"p{n}") for n, a in enumerate(arrays)]
    write(code, *([code.range(items)] if items else []), *pointers)
    body = "\n".join(code.lines)
    text = f"{HEAD}def {NAME}({', '.join(p.name for p in pointers)}):\n{body}\n"
    types = [spell_pointer(p.dtype) for p in pointers]
    run_kernel(text, NAME, arrays, (1, 1, 1), types=types)
    return text


def compiles(text: str, arrays: Sequence[Array]) -> bool:
    """Whether the compiler takes a text."""
    types = tuple(spell_pointer(DType.of(a.dtype)) for a in arrays)
    return bool(compiled(KernelSource(NAME, text, (), types, (True,) * len(types), (1, 1, 1))))
