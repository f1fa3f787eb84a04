"""Several kernels as one launch: their programs side by side in one grid.

A launch takes about a microsecond, which is more than most copies take. Each kernel keeps its code,
as a function that is told which of its programs it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

from afterglow.backends.cuda.kernels.kernel import HEAD, JIT, KernelSource, digest_of
from afterglow.backends.cuda.tl.code import INDENT, PROGRAM

MOST = 8
"""Kernels of a launch."""


def join(kernels: Sequence[KernelSource]) -> KernelSource | None:
    """The kernel whose programs are those of some kernels; None if they cannot be one."""
    if len(kernels) > MOST or not all(kernel.joins for kernel in kernels):
        return None
    functions = dict.fromkeys(map(_function, kernels))
    types = tuple(type for kernel in kernels for type in kernel.types)
    aligned = tuple(each for kernel in kernels for each in kernel.aligned)
    warps = max(kernel.warps for kernel in kernels)
    body = "\n".join(_choice(kernels))
    above = f"\n\n{JIT}".join(functions)
    first = kernels[0].name.rpartition("_")[0]
    digest = digest_of(f"{types} {aligned} {warps}\n{above}\n{body}")
    name = f"{first}_and_{len(kernels) - 1}_more_{digest}"
    arguments = ", ".join(f"p{number}" for number in range(len(types)))
    return KernelSource(
        name,
        f"{HEAD}{above}\n\n{JIT}def {name}({arguments}):\n{body}\n",
        tuple(parameter for kernel in kernels for parameter in kernel.parameters),
        types,
        aligned,
        (sum(kernel.grid[0] for kernel in kernels), 1, 1),
        warps,
    )


def _function(kernel: KernelSource) -> str:
    """The text of a kernel as a function that is told which program it is."""
    head, _, body = kernel.text.removeprefix(HEAD).partition("\n")
    return head.replace("(", "(program, ", 1) + "\n" + body.replace(PROGRAM, "program")


def _choice(kernels: Sequence[KernelSource]) -> list[str]:
    """Lines that call the function to which a program belongs."""
    lines = [f"{INDENT}program = {PROGRAM}"]
    ends = [*accumulate(kernel.grid[0] for kernel in kernels)]
    pointer = 0
    for number, (kernel, end) in enumerate(zip(kernels, ends, strict=True)):
        first = ends[number - 1] if number else 0
        own = [f"p{pointer + each}" for each in range(len(kernel.types))]
        pointer += len(own)
        called = f"{kernel.name}({', '.join([f'program - {first}', *own])})"
        word = "if" if number == 0 else "elif"
        is_last = number == len(kernels) - 1
        lines.append(f"{INDENT}else:" if is_last else f"{INDENT}{word} program < {end}:")
        lines.append(f"{INDENT * 2}{called}")
    return lines
