"""Run and compile the texts of kernels in tests, without a GPU.

    from tests.backends.cuda.emulate import HEAD, compile_text, run_kernel

    text = HEAD + '''def double(p0, p1):
        i = tl.program_id(0) * 16 + tl.arange(0, 16)
        tl.store(p1 + i, 2.0 * tl.load(p0 + i, mask=i < 20), mask=i < 20)
    '''
    x, y = np.arange(20, dtype="f4"), np.empty(20, "f4")
    run_kernel(text, "double", [x, y], grid=(2, 1, 1))     # writes y, in place
    compiled = compile_text(text, "double", ["*fp32", "*fp32"], arch=90)
    compiled.cubin, compiled.shared, compiled.registers

`run_kernel` finds accesses outside of the arrays. The types of pointers are those of the arrays
(`ml_dtypes.bfloat16` and `float8_e4m3fn` as well) unless they are given; booleans are `*u8`.
"""

from __future__ import annotations

from collections.abc import Sequence

from afterglow.backends.cuda.compile import Compiled, compile_kernels
from afterglow.backends.cuda.emulator.kernel import Machine
from afterglow.backends.cuda.emulator.memory import Memory
from afterglow.backends.cuda.kernels.kernel import KernelSource
from afterglow.backends.cuda.target import KINDS
from afterglow.types import Array

HEAD = """import triton
import triton.language as tl
from triton.language.extra import libdevice
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait


@triton.jit
"""
"""What the text of every kernel begins with, up to its `def`."""
_TYPES = {
    "float16": "*fp16",
    "bfloat16": "*bf16",
    "float32": "*fp32",
    "float64": "*fp64",
    "float8_e4m3fn": "*fp8e4nv",
    "float8_e5m2": "*fp8e5",
    "bool": "*u8",
    **{f"int{bits}": f"*i{bits}" for bits in (8, 16, 32, 64)},
    **{f"uint{bits}": f"*u{bits}" for bits in (8, 16, 32, 64)},
}
_MEMORY = Memory()
_MACHINE = Machine(_MEMORY)


def run_kernel(
    text: str,
    name: str,
    arrays: Sequence[Array],
    grid: tuple[int, int, int],
    *,
    types: Sequence[str] = (),
    aligned: Sequence[bool] = (),
) -> None:
    """Interpret a kernel on contiguous arrays, which it writes in place."""
    types = types or [_TYPES[array.dtype.name] for array in arrays]
    kernel = _MACHINE.load(name, text, types, aligned)
    addresses = [_MEMORY.adopt(array) for array in arrays]
    try:
        _MACHINE.launch(kernel, grid, addresses)
    finally:
        for address in set(addresses):
            _MEMORY.release(address)


def compile_text(
    text: str,
    name: str,
    types: Sequence[str],
    *,
    aligned: Sequence[bool] = (),
    arch: int = 90,
    warps: int = 4,
    stages: int = 2,
    fuses: bool = False,
) -> Compiled:
    """A kernel for a GPU: its cubin, and facts such as its shared memory and registers."""
    given = tuple(aligned or [True] * len(types))
    source = KernelSource(
        name, text, (), tuple(types), given, (1, 1, 1), warps=warps, stages=stages, fuses=fuses
    )
    return compile_kernels([source], KINDS[f"sm_{arch}"])[name]
