"""This machine in LLVM's names: triple, processor and features."""

from __future__ import annotations

import llvmlite.binding as llvm

_UNUSED = ("rdrnd", "rdseed", "shstk")
"""Features that no kernel uses, and that a system may withhold though the processor has them."""


def host_triple() -> str:
    """The triple of this process."""
    return str(llvm.get_process_triple())


def host_cpu() -> str:
    """LLVM's name of this processor."""
    return str(llvm.get_host_cpu_name())


def host_features() -> tuple[str, ...]:
    """LLVM's names of the features that this processor has, sorted."""
    features = llvm.get_host_cpu_features()
    return tuple(
        sorted(name for name, present in features.items() if present and name not in _UNUSED)
    )
