"""Division by one number: to the bit what NumPy divides."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from afterglow.backends.cpu import Target, assembly
from afterglow.ops.quantization import QuantizeLinear
from afterglow.types.dtype import i8, u8
from tests.backends.cpu.kernels.harness import Bench, best_kernel

TILED = "x86_64-unknown-linux-gnu+x86-64-v4+avx512vnni,amx-tile,amx-int8"
INVERTING = replace(Target.host(), byte_tiles=True)
SCALES = [0.1, -0.1, 1.0, 3e-3, np.float32(1) / 3, 2.0**-100, 1e-38, 1e-42, 1e38, 7e30]


def halves(scale: float) -> np.ndarray:
    """Numbers whose quotients lie on, just below and just above halves, where rounding decides."""
    with np.errstate(over="ignore"):
        exact = (np.arange(-40, 300) + 0.5).astype(np.float32) * np.float32(scale)
        near = [exact, np.nextafter(exact, np.inf), np.nextafter(exact, -np.inf)]
    special = np.array([0.0, -0.0, np.inf, -np.inf, 3e38, -3e38, 1e-45, 1e-38], np.float32)
    return np.concatenate([*near, special]).astype(np.float32)


@pytest.mark.parametrize("dtype", [u8, i8], ids=str)
@pytest.mark.parametrize("scale", SCALES)
def test_quantized_numbers_round_as_those_that_were_divided(scale: float, dtype: object) -> None:
    bench = Bench(INVERTING)
    x = bench.input(halves(scale))
    zero = bench.constant(np.array(3, dtype.numpy))
    op = QuantizeLinear(0, dtype)
    bench.step(op, x, bench.constant(np.array(scale, np.float32)), zero, stored=True)
    (result,) = bench.run(2)
    np.testing.assert_array_equal(result, bench.values[bench.steps[-1].outs[0]])


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("dtype", [u8, i8], ids=str)
@pytest.mark.parametrize("scale", [0.0, np.inf])
def test_what_has_no_inverse_divides_as_it_does(scale: float, dtype: object) -> None:
    test_quantized_numbers_round_as_those_that_were_divided(scale, dtype)


@pytest.mark.parametrize("seed", range(4))
def test_random_numbers_are_divided_by_random_scales_to_the_bit(seed: int) -> None:
    rng = np.random.default_rng(seed)
    scale = np.float32(rng.uniform(0.5, 1) * 2.0 ** rng.integers(-20, 20))
    near = (rng.integers(-20, 280, 40_000) + 0.5) * np.float64(scale)
    bits = near.astype(np.float32).view(np.int32) + rng.integers(-3, 4, 40_000).astype(np.int32)
    bench = Bench(INVERTING)
    x = bench.input(bits.view(np.float32))
    bench.step(QuantizeLinear(0), x, bench.constant(np.array(scale)), stored=True)
    (result,) = bench.run()
    np.testing.assert_array_equal(result, bench.values[bench.steps[-1].outs[0]])


def test_a_quotient_takes_six_instructions_until_it_is_rounded() -> None:
    target = Target.of(TILED)
    bench = Bench(target)
    x, scale = bench.input(np.zeros((4, 64), np.float32)), np.array(0.1, np.float32)
    bench.step(QuantizeLinear(1), x, bench.constant(scale), stored=True)
    code = assembly(best_kernel(bench.job(), target).module, target)
    vectors = code.count("vcvtps2dq")
    counts = [len(re.findall(rf"v{name}\w*ps\s.*zmm", code)) for name in ("fn?m[as]", "min", "cmp")]
    assert counts == [3 * vectors, vectors, 0]


@pytest.mark.parametrize(("machine", "divides"), [("x86-64-v3", True), (TILED, False)])
def test_loops_divide_unless_tiles_leave_the_units_of_vectors_idle(
    machine: str, divides: bool
) -> None:
    target = Target.of(machine)
    bench = Bench(target)
    x, scale = bench.input(np.zeros((4, 64), np.float32)), np.array(0.1, np.float32)
    bench.step(QuantizeLinear(1), x, bench.constant(scale), stored=True)
    code = assembly(best_kernel(bench.job(), target).module, target)
    assert ("vdivps" in code) == divides
    assert ("vdivss" in code) != divides
