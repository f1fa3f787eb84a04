"""Writes docs/math.md: how far each function is off, as measured.

Run `python -m tests.backends.cpu.llvm.math.page`.
"""

from __future__ import annotations

from pathlib import Path

from afterglow.backends.cpu import Target
from afterglow.types.dtype import f32, f64
from tests.backends.cpu.llvm.math.functions import FUNCTIONS, MathFunction
from tests.backends.cpu.llvm.math.ulp import measure

PAGE = Path(__file__).parents[5] / "docs" / "math.md"
SAMPLES = 5000
MACHINES = ("x86-64-v3", "x86-64")

HEAD = """\
# Mathematical functions

The CPU backend computes these functions of f32 and f64 by polynomials, in vectors of any number of
lanes and without a library. Each result is right to 2 units in the last place (ulp), everywhere:
subnormal and huge numbers included, and sines of angles as large as floats go. Zeros keep their
sign, NaN stays NaN, and infinities, poles and arguments outside the domain give what C's functions
give.

The largest errors that were measured, against 128 bits, on thousands of numbers of all sizes, with
more of them where functions are steep and where methods change. A machine with fused multiply-add
(x86-64-v3) rounds less often than one without (x86-64). Rounding right would be 0.5.

| function | f32 | f64 | f32 without fma | f64 without fma |
|---|---|---|---|---|
"""

TAIL = """
`exp_down`, for softmax, is `exp` for arguments that are not positive; results below the least
normal number are zero there.

Written by `python -m tests.backends.cpu.llvm.math.page`; a test compares it with what it measures.
"""


def page() -> str:
    """The text of the page."""
    return HEAD + "".join(f"{_row(function)}\n" for function in FUNCTIONS) + TAIL


def _row(function: MathFunction) -> str:
    cells = [
        f"{measure(function, dtype, SAMPLES, target=Target.of(name)).ulps:.2f}"
        for name in MACHINES
        for dtype in (f32, f64)
    ]
    return f"| `{function.name}` | {' | '.join(cells)} |"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
