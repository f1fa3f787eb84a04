"""What functions are at zeros, infinities, NaN and poles; and what they do not depend on."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest

from afterglow.backends.cpu import Module, Target, assembly
from afterglow.backends.cpu.llvm import math as vector_math
from afterglow.backends.cpu.llvm.math import cos, exp, exp_down, sin, tan
from afterglow.backends.cpu.target import NAMED
from afterglow.types.dtype import DType, f32, f64
from tests.backends.cpu.llvm.math.functions import EDGES, FUNCTIONS, LEAST, MOST, MathFunction
from tests.backends.cpu.running import RUNNABLE, apply

NUMPY = {
    **{name: getattr(np, name) for name in ("exp", "exp2", "expm1", "log", "log2", "log10")},
    **{name: getattr(np, name) for name in ("log1p", "sin", "cos", "tan", "sinh", "cosh", "tanh")},
    **{name: getattr(np, f"arc{name[1:]}") for name in ("asin", "acos", "atan", "atan2")},
    **{name: getattr(np, f"arc{name[1:]}") for name in ("asinh", "acosh", "atanh")},
    "pow": np.power,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "erf": lambda x: np.array([math.erf(v) for v in x], x.dtype),
}

each_function = pytest.mark.parametrize("function", FUNCTIONS, ids=str)
each_float = pytest.mark.parametrize("dtype", [f32, f64], ids=str)


def edges(function: MathFunction, dtype: DType) -> list[np.ndarray]:
    kind = dtype.numpy.type
    ends = [*EDGES, *LEAST[kind], *(-x for x in LEAST[kind]), MOST[kind], -MOST[kind], 3, -3, 2.5]
    x = np.array(ends, dtype.numpy)
    if function.operands == 1:
        return [x]
    return [grid.reshape(-1) for grid in np.meshgrid(x, x)]


@each_function
@each_float
@pytest.mark.parametrize("target", [name for name in ("host", "x86-64") if name in RUNNABLE])
def test_edges(function: MathFunction, dtype: DType, target: str) -> None:
    columns = edges(function, dtype)
    with np.errstate(all="ignore"):
        wanted = NUMPY[function.name](*columns)
    found = apply(function.emit, dtype, *columns, target=Target.of(target))
    plain = np.isfinite(wanted) & (wanted != 0)
    tiny = float(np.finfo(dtype.numpy).smallest_subnormal)
    close = np.isclose(found, wanted, rtol=1e-6 if dtype is f32 else 4e-15, atol=2 * tiny)
    same = (found == wanted) & (np.signbit(found) == np.signbit(wanted))
    right = np.where(plain, close, same | (np.isnan(found) & np.isnan(wanted)))
    wrong = [(*(c[i] for c in columns), found[i], wanted[i]) for i in np.flatnonzero(~right)]
    assert not wrong


def test_powers_of_two_are_exact() -> None:
    n = np.arange(-149, 128, dtype=np.float32)
    np.testing.assert_array_equal(apply(vector_math.exp2, f32, n), 2.0 ** n.astype(np.float64))
    np.testing.assert_array_equal(
        apply(vector_math.log2, f32, np.ldexp(np.float32(1), n.astype(int))), n
    )


@each_float
def test_odd_functions_are_odd(dtype: DType) -> None:
    x = np.random.default_rng(0).normal(0, 3, 256).astype(dtype.numpy)
    for name in ("sin", "tan", "asin", "atan", "sinh", "tanh", "asinh", "atanh", "erf"):
        function = getattr(vector_math, name)
        np.testing.assert_array_equal(apply(function, dtype, -x), -apply(function, dtype, x), name)


@each_function
@each_float
def test_a_lane_does_not_depend_on_its_neighbours(function: MathFunction, dtype: DType) -> None:
    columns = [column[:192] for column in function.samples(dtype, 100)]
    alone = apply(function.emit, dtype, *columns, lanes=1)
    for lanes in (2, 8, 32):
        np.testing.assert_array_equal(apply(function.emit, dtype, *columns, lanes=lanes), alone)


@pytest.mark.parametrize("function", [sin, cos, tan], ids=lambda f: f.__name__)
@each_float
def test_large_angles_do_not_disturb_small_ones(function: object, dtype: DType) -> None:
    assert callable(function)
    small = np.linspace(-9, 9, 64).astype(dtype.numpy)
    mixed = small.copy()
    mixed[::3] = 1e20
    found, alone = apply(function, dtype, mixed), apply(function, dtype, small)
    kept = np.arange(64) % 3 != 0
    np.testing.assert_array_equal(found[kept], alone[kept])
    np.testing.assert_array_equal(found[~kept], found[0])


@each_float
def test_exp_down_is_exp_without_subnormal_results(dtype: DType) -> None:
    low = -87 if dtype is f32 else -708
    x = np.concatenate([np.linspace(low, 0, 999), [low - 1, -1e30, -np.inf, np.nan, 0, -0.0]])
    x = x.astype(dtype.numpy)
    found, wanted = apply(exp_down, dtype, x), apply(exp, dtype, x)
    wanted[x < low] = 0
    np.testing.assert_array_max_ulp(found, wanted, maxulp=1, dtype=dtype.numpy)


CALL = re.compile(r"^\s+(?:call|callq|bl|blx|jal|jalr|tail|b)\s+@?([A-Za-z_][\w.]*)", re.MULTILINE)


@pytest.mark.parametrize("name", NAMED)
@pytest.mark.parametrize("dtype", [f32, f64], ids=str)
def test_no_target_needs_a_library(name: str, dtype: DType) -> None:
    """But for what compilers' own runtime libraries do: arithmetic that the machine lacks."""
    target = Target.of(name)
    if dtype is f64 and not target.double_precision:
        pytest.skip("f64 is computed by routines there")
    module = Module(target)
    for function in FUNCTIONS:
        with module.function(function.name) as e:
            x, y = e.pointer("x", dtype), e.pointer("y", dtype)
            lanes = e.lanes(dtype)
            y.store(function.emit(*[x.load(0, lanes)] * function.operands))
    called = set(CALL.findall(assembly(module, target)))
    outside = {name for name in called if not name.startswith(("reduce_large_angle", "__", ".L"))}
    assert not outside
