"""Every function is right to 2 units in the last place, against 128 bits."""

from __future__ import annotations

from pathlib import Path

import pytest

from afterglow.backends.cpu import Target
from afterglow.types.dtype import DType, f32, f64
from tests.backends.cpu.llvm.math.fit import page as coefficients_page
from tests.backends.cpu.llvm.math.functions import FUNCTIONS, MathFunction
from tests.backends.cpu.llvm.math.page import page as accuracy_page
from tests.backends.cpu.llvm.math.ulp import measure
from tests.backends.cpu.running import RUNNABLE

ROOT = Path(__file__).parents[5]
BOUND = 2.0

each_function = pytest.mark.parametrize("function", FUNCTIONS, ids=str)
each_machine = pytest.mark.parametrize(
    "target", [name for name in ("host", "x86-64") if name in RUNNABLE]
)
each_float = pytest.mark.parametrize("dtype", [f32, f64], ids=str)


@each_function
@each_float
@each_machine
def test_accuracy(function: MathFunction, dtype: DType, target: str) -> None:
    worst = measure(function, dtype, 100, target=Target.of(target))
    assert worst.tried > 100
    assert worst.ulps <= BOUND, worst


@pytest.mark.slow
@each_function
@each_float
@each_machine
def test_accuracy_densely(function: MathFunction, dtype: DType, target: str) -> None:
    worst = measure(function, dtype, 5000, target=Target.of(target), seed=1)
    assert worst.ulps <= BOUND, worst


@pytest.mark.slow
@pytest.mark.skipif("x86-64-v3" not in RUNNABLE, reason="the page is about x86-64")
def test_the_page_states_what_is_measured() -> None:
    """Write it anew with `python -m tests.backends.cpu.llvm.math.page`."""
    assert (ROOT / "docs" / "math.md").read_text() == accuracy_page()


@pytest.mark.slow
def test_coefficients_are_the_best() -> None:
    """The file is what `python -m tests.backends.cpu.llvm.math.fit` prints, but for line breaks."""
    path = ROOT / "src" / "afterglow" / "backends" / "cpu" / "math" / "coefficients.py"
    written, fitted = (
        "".join(text.split()).replace(",)", ")") for text in (path.read_text(), coefficients_page())
    )
    assert written == fitted
