"""Comparing what an instruction wrote with what its ops mean."""

from __future__ import annotations

from typing import Any

import numpy as np

from afterglow.backends.interpreter.machine import Run
from afterglow.instr import Access, Buffer, Instr
from afterglow.instr.printer import instruction_text
from afterglow.support.errors import VerifyError
from afterglow.types import Array

TOLERANCE = 1e-4
"""How far a float may be off, by the largest magnitude of its tensor; narrow ones by the type."""
LEAST = 1e-6
"""A difference that does not count: what is left where large numbers cancel each other."""


def compare_step(index: int, step: Instr, mine: Run, reference: Run) -> None:
    """Raise `VerifyError` if an instruction wrote something else in a run than in another."""
    hidden: set[Buffer] = {*getattr(step, "locals", ())}
    rounded = any(buffer.type.dtype.is_narrow_float for buffer in hidden)
    for access, buffer in step.accesses():
        if access.writes and access is not Access.SCRATCH and buffer not in hidden:
            problem = _difference(mine.array(buffer), reference.array(buffer), rounded=rounded)
            if problem:
                raise VerifyError(
                    f"instruction {index} writes something else to {buffer} than its ops mean",
                    excerpt=[*instruction_text(step).splitlines(), problem],
                    help="this is a fault of the compiler; backend='interpreter' is not affected",
                )


def _difference(got: Array, want: Array, *, rounded: bool = False) -> str:
    """What is wrong with an array; nothing if it is close enough.

    `rounded` says whether it was computed from narrow floats, where it may be a step of those off.
    """
    if got.dtype == object or got.dtype.kind in "biu" or got.dtype.name.startswith(("int", "uint")):
        wrong = np.asarray(got != want)
        return f"{int(wrong.sum()):,} of {got.size:,} elements differ" if wrong.any() else ""
    wide: Any = np.complex128 if got.dtype.kind == "c" else np.float64
    g, w = got.astype(wide), want.astype(wide)
    finite = np.isfinite(w)
    scale = max(1e-30, float(np.abs(w[finite]).max(initial=0.0)))
    narrow = rounded or got.dtype.itemsize < 4
    limit = (0.02 if narrow else TOLERANCE) * scale + LEAST
    apart = np.abs(np.subtract(g, w, where=finite, out=np.zeros_like(g)))
    near = apart <= limit
    same = np.where(finite, near, (g == w) | (np.isnan(g) & np.isnan(w)))
    if same.all():
        return ""
    worst = float(apart.max())
    return f"{int((~same).sum()):,} of {got.size:,} elements differ, by up to {worst:.3g}"
