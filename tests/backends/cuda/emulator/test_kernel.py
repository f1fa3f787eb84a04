"""Texts of kernels on the processor, against NumPy."""

from __future__ import annotations

import math

import ml_dtypes
import numpy as np
import pytest
import triton.language as tl

from afterglow.backends.cuda.emulator.kernel import KernelError, Machine
from afterglow.backends.cuda.emulator.memory import Memory
from tests.backends.cuda.emulate import HEAD, run_kernel

BFLOAT = np.dtype(ml_dtypes.bfloat16)


def run(body: str, *arrays: np.ndarray, grid=(1, 1, 1), **options) -> None:
    """Run the lines of a kernel on arrays."""
    lines = "".join(f"    {line.strip()}\n" for line in body.strip().splitlines())
    arguments = ", ".join(f"p{index}" for index in range(len(arrays)))
    run_kernel(f"{HEAD}def kernel({arguments}):\n{lines}", "kernel", arrays, grid, **options)


def random(*shape: int, dtype="f4") -> np.ndarray:
    return np.random.default_rng(0).standard_normal(shape).astype(dtype)


def test_programs_compute_their_own_items():
    x, y = random(100), np.zeros(100, "f4")
    body = """
    i = tl.program_id(0) * 16 + tl.program_id(1) * 8 + tl.arange(0, 8)
    inside = i < 100
    tl.store(p1 + i, 2.0 * tl.load(p0 + i, mask=inside) + 1.0, mask=inside)
    """
    run(body, x, y, grid=(7, 2, 1))
    np.testing.assert_array_equal(y, 2 * x + 1)


def test_masked_places_keep_what_they_are():
    y = np.full(8, 7, "i4")
    run("i = tl.arange(0, 8)\ntl.store(p0 + i, i, mask=i % 2 == 0)", y)
    assert y.tolist() == [0, 7, 2, 7, 4, 7, 6, 7]


def test_masked_loads_give_the_other_value():
    y = np.zeros(4, "i4")
    body = "i = tl.arange(0, 4)\ntl.store(p1 + i, tl.load(p0 + i, mask=i < 2, other=-1))"
    run(body, np.array([5, 6], "i4"), y)
    assert y.tolist() == [5, 6, -1, -1]


@pytest.mark.parametrize("name", ["sum", "max", "min"])
def test_reductions_along_an_axis(name):
    x, y = random(8, 16), np.zeros(8, "f4")
    body = f"""
    i = tl.arange(0, 8)
    x = tl.load(p0 + i[:, None] * 16 + tl.arange(0, 16)[None, :])
    tl.store(p1 + i, tl.{name}(x, 1))
    """
    run(body, x, y)
    np.testing.assert_allclose(y, getattr(x, name)(1), rtol=1e-6)


def test_reductions_of_everything_give_scalars():
    x, y = np.arange(32, dtype="i4"), np.zeros(2, "i4")
    body = """
    x = tl.load(p0 + tl.arange(0, 32))
    tl.store(p1, tl.sum(x))
    tl.store(p1 + 1, tl.max(x, 0))
    """
    run(body, x, y)
    assert y.tolist() == [496, 31]


def test_the_largest_comes_with_its_place():
    x, values, places = np.array([1, 5, 5, 2], "f4"), np.zeros(1, "f4"), np.zeros(2, "i4")
    body = """
    x = tl.load(p0 + tl.arange(0, 4))
    value, place = tl.max(x, 0, return_indices=True)
    tl.store(p1, value)
    tl.store(p2, place)
    tl.store(p2 + 1, tl.argmin(x, 0))
    """
    run(body, x, values, places)
    assert values.tolist() == [5]
    assert places.tolist() == [1, 0]


def test_functions_of_the_kernel_reduce_and_scan():
    """Subtraction of remainders keeps the order, so that a swap of operands would be seen."""
    text = """import triton
import triton.language as tl

@triton.jit
def last(a, b):
    return tl.where(b == 0, a, b)

@triton.jit
def kernel(p0, p1, p2):
    i = tl.arange(0, 8)
    x = tl.load(p0 + i)
    tl.store(p1 + i, tl.associative_scan(x, 0, last))
    tl.store(p2, tl.reduce(x, 0, last))
"""
    x, scanned, reduced = np.array([3, 0, 0, 4, 0, 1, 0, 0]), np.zeros(8, "i8"), np.zeros(1, "i8")
    run_kernel(text, "kernel", [x, scanned, reduced], (1, 1, 1))
    assert scanned.tolist() == [3, 3, 3, 4, 4, 1, 1, 1]
    assert reduced.tolist() == [1]


def test_running_sums_in_both_directions():
    x, y = np.arange(8, dtype="f4"), np.zeros((2, 8), "f4")
    body = """
    i = tl.arange(0, 8)
    x = tl.load(p0 + i)
    tl.store(p1 + i, tl.cumsum(x, 0))
    tl.store(p1 + 8 + i, tl.cumsum(x, 0, reverse=True))
    """
    run(body, x, y)
    np.testing.assert_array_equal(y, [np.cumsum(x), np.cumsum(x[::-1])[::-1]])


def test_sorting():
    x, y = random(16), np.zeros(16, "f4")
    run("i = tl.arange(0, 16)\ntl.store(p1 + i, tl.sort(tl.load(p0 + i)))", x, y)
    np.testing.assert_array_equal(y, np.sort(x))


@pytest.mark.parametrize("dtype", ["f4", "f2", BFLOAT], ids=str)
def test_products_have_sums_in_f32(dtype):
    a, b, c = random(16, 32, dtype=dtype), random(32, 16, dtype=dtype), np.zeros((16, 16), "f4")
    body = """
    i = tl.arange(0, 16)
    k = tl.arange(0, 32)
    a = tl.load(p0 + i[:, None] * 32 + k[None, :])
    b = tl.load(p1 + k[:, None] * 16 + i[None, :])
    tl.store(p2 + i[:, None] * 16 + i[None, :], tl.dot(a, b, input_precision="ieee"))
    """
    run(body, a, b, c)
    np.testing.assert_allclose(c, a.astype("f8") @ b.astype("f8"), rtol=1e-4, atol=1e-5)


def test_tf32_loses_the_low_bits_of_operands():
    a, b, c = np.full((16, 16), 1 + 2**-12, "f4"), np.eye(16, dtype="f4"), np.zeros((16, 16), "f4")
    body = """
    i = tl.arange(0, 16)[:, None] * 16 + tl.arange(0, 16)[None, :]
    tl.store(p2 + i, tl.dot(tl.load(p0 + i), tl.load(p1 + i), input_precision="tf32"))
    """
    run(body, a, b, c)
    np.testing.assert_array_equal(c, np.ones((16, 16)))


def test_products_of_integers_are_exact():
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-128, 128, (32, 32), np.int8) for _ in range(2))
    c = np.zeros((32, 32), "i4")
    body = """
    i = tl.arange(0, 32)[:, None] * 32 + tl.arange(0, 32)[None, :]
    tl.store(p2 + i, tl.dot(tl.load(p0 + i), tl.load(p1 + i), out_dtype=tl.int32))
    """
    run(body, a, b, c)
    np.testing.assert_array_equal(c, a.astype("i4") @ b.astype("i4"))


def test_programs_add_atomically():
    count, total = np.zeros(1, "i4"), np.zeros(4, "f4")
    body = """
    before = tl.atomic_add(p0, 1)
    tl.atomic_add(p1 + before, 1.5)
    """
    run(body, count, total, grid=(4, 1, 1))
    assert count.tolist() == [4]
    assert total.tolist() == [1.5] * 4


def test_bf16_is_rounded_to_the_nearest_even():
    x = np.array([1 + 2**-8, 1 + 3 * 2**-8, -1e-40, 3.4e38, np.inf, np.nan], "f4")
    y = np.zeros(6, BFLOAT)
    body = """
    i = tl.arange(0, 8)
    tl.store(p1 + i, tl.load(p0 + i, mask=i < 6).to(tl.bfloat16), mask=i < 6)
    """
    run(body, x, y)
    np.testing.assert_array_equal(y.astype("f4"), x.astype(BFLOAT).astype("f4"))


def test_integers_are_made_of_floats_as_the_device_does():
    x, y = np.array([1.9, -1.9, 3e9, -3e9, np.nan, np.inf], "f4"), np.zeros(6, "i4")
    body = """
    i = tl.arange(0, 8)
    tl.store(p1 + i, tl.load(p0 + i, mask=i < 6).to(tl.int32), mask=i < 6)
    """
    run(body, x, y)
    assert y.tolist() == [1, -1, 2**31 - 1, -(2**31), 0, 2**31 - 1]


def test_comparisons_and_extremes_of_nan():
    x = np.array([1, np.nan, np.nan, 2], "f4")
    y = np.zeros((4, 4), "f4")
    body = """
    i = tl.arange(0, 4)
    x = tl.load(p0 + i)
    z = tl.load(p0 + 3 - i)
    tl.store(p1 + i, tl.maximum(x, z))
    tl.store(p1 + 4 + i, tl.maximum(x, z, propagate_nan=tl.PropagateNan.ALL))
    tl.store(p1 + 8 + i, (x == x).to(tl.float32))
    tl.store(p1 + 12 + i, (x < z).to(tl.float32))
    """
    run(body, x, y)
    np.testing.assert_array_equal(y[0], [2, np.nan, np.nan, 2])
    np.testing.assert_array_equal(y[1], [2, np.nan, np.nan, 2])
    assert y[2].tolist() == [1, 0, 0, 1]
    assert y[3].tolist() == [1, 0, 0, 0]


def test_shifts_follow_the_sign_of_their_type():
    x, y = np.array([-8, 8], "i4"), np.zeros((2, 2), "i4")
    body = """
    i = tl.arange(0, 2)
    x = tl.load(p0 + i)
    tl.store(p1 + i, x >> 1)
    tl.store(p1 + 2 + i, (x.to(tl.uint32, bitcast=True) >> 1).to(tl.int32, bitcast=True))
    """
    run(body, x, y)
    assert y.tolist() == [[-4, 4], [2**31 - 4, 4]]


LIBRARY = {
    "exp": np.exp,
    "log": np.log,
    "erf": np.vectorize(math.erf),
    "erfc": np.vectorize(math.erfc),
    "expm1": np.expm1,
    "log1p": np.log1p,
    "tanh": np.tanh,
    "atan": np.arctan,
    "asin": np.arcsin,
    "rint": np.rint,
    "round": lambda x: np.floor(x + 0.5),
    "sqrt_rn": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "isnan": np.isnan,
}


@pytest.mark.parametrize("name", LIBRARY)
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_functions_of_libdevice(name, dtype):
    x, y = np.linspace(0.05, 0.95, 16).astype(dtype), np.zeros(16, dtype)
    run(f"i = tl.arange(0, 16)\ntl.store(p1 + i, libdevice.{name}(tl.load(p0 + i)))", x, y)
    wanted = LIBRARY[name](x.astype("f8"))
    np.testing.assert_allclose(y, wanted, rtol=1e-6 if dtype == "f4" else 1e-14)


@pytest.mark.parametrize(
    ("name", "function"),
    [("pow", np.power), ("fmod", np.fmod), ("div_rn", np.divide), ("copysign", np.copysign)],
)
def test_functions_of_two_operands(name, function):
    x, z, y = np.abs(random(16)) + 1, random(16) + 3, np.zeros(16, "f4")
    body = f"""
    i = tl.arange(0, 16)
    tl.store(p2 + i, libdevice.{name}(tl.load(p0 + i), tl.load(p1 + i)))
    """
    run(body, x, z, y)
    np.testing.assert_allclose(y, function(x, z), rtol=1e-6)


def test_an_access_behind_an_array_is_an_error():
    x, y = random(16), np.zeros(20, "f4")
    with pytest.raises(KernelError) as caught:
        run(
            "i = tl.arange(0, 32)\ntl.store(p1 + i, tl.load(p0 + i, mask=i < 17), mask=i < 20)",
            x,
            y,
        )
    said = "kernel kernel: program (0, 0, 0) loads 4 bytes at offset 64 of memory that has 64 bytes"
    assert str(caught.value).startswith(f"{said}, in: tl.store(p1 + i, tl.load(p0 + i, ")
    assert not y.any()


def test_an_access_before_an_array_is_an_error():
    with pytest.raises(
        KernelError, match=r"stores 4 bytes at offset -4 of memory that has 16 bytes"
    ):
        run("tl.store(p0 - 1, 1.0)", np.zeros(4, "f4"))


def test_an_address_between_elements_is_an_error():
    with pytest.raises(
        KernelError, match=r"updates 4 bytes at an address that is no multiple of 4"
    ):
        run("tl.atomic_add((p0 + 1).to(tl.pointer_type(tl.int32)), 1)", np.zeros(8, "i1"))


def test_pointers_that_are_said_to_be_aligned_must_be():
    x = np.zeros(8, "f4")
    base = x if x.ctypes.data % 16 == 0 else x[-x.ctypes.data % 16 // 4 :]
    with pytest.raises(KernelError, match="p0 is no multiple of 16"):
        run("tl.store(p0, 1.0)", base[1:], aligned=[True])


def test_memory_that_was_never_written_is_not_a_number():
    memory = Memory()
    address = memory.allocate(64)
    assert address % 256 == 0
    assert np.isnan(memory.bytes_at(address, 64).view("f4")).all()
    assert np.isnan(memory.bytes_at(address, 64).view("f2")).all()


def dependent(body: str, *arrays: np.ndarray) -> None:
    """Run a kernel twice, the second while the first may be running still."""
    memory = Memory()
    machine = Machine(memory)
    arguments = ", ".join(f"p{index}" for index in range(len(arrays)))
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    text = f"{HEAD}def kernel({arguments}):\n{lines}"
    kernel = machine.load("kernel", text, ["*fp32"] * len(arrays))
    addresses = [memory.adopt(array) for array in arrays]
    for _ in range(2):
        machine.launch(kernel, (2, 1, 1), addresses, is_dependent=True)


def test_dependent_kernels_may_read_constants_before_they_wait():
    x, y = np.ones(1, "f4"), np.zeros(2, "f4")
    dependent("x = tl.load(p0)\ngdc_wait()\ntl.store(p1 + tl.program_id(0), x)", x, y)
    assert y.tolist() == [1, 1]


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("tl.store(p0, 1.0)\ngdc_wait()", "stores 4 bytes before it waits"),
        ("x = tl.load(p0)\ngdc_wait()\ntl.store(p0, x)", "loads 4 bytes before it waits"),
        ("x = tl.load(p0)", "no program waits for the kernel before"),
    ],
)
def test_dependent_kernels_must_wait(body, said):
    with pytest.raises(KernelError, match=said):
        dependent(body, np.zeros(1, "f4"))


def test_errors_name_what_the_emulator_lacks():
    with pytest.raises(KernelError, match="NotImplementedError: the emulator has no function j0f"):
        run("tl.store(p0, libdevice.j0(tl.load(p0)))", np.zeros(1, "f4"))
    asm = "tl.inline_asm_elementwise('trap;', '=r', [], dtype=tl.int32, is_pure=False, pack=1)"
    with pytest.raises(KernelError, match="the emulator runs no assembler such as 'trap;'"):
        run(asm, np.zeros(1, "f4"))


def test_the_language_is_as_before_behind_a_launch():
    before = tl.sum, tl.load, vars(tl.tensor)["__add__"]
    run("tl.store(p0, 1.0)", np.zeros(1, "f4"))
    with pytest.raises(KernelError):
        run("tl.store(p0 + 1, 1.0)", np.zeros(1, "f4"))
    assert before == (tl.sum, tl.load, vars(tl.tensor)["__add__"])
