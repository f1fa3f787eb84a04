"""The machine that code is generated for: its facts, its name, and what LLVM knows about it."""

from afterglow.backends.cpu.target.target import (
    HOST,
    HOST_WITHOUT_TILES,
    NAMED,
    Caches,
    Facts,
    Target,
)

__all__ = ["HOST", "HOST_WITHOUT_TILES", "NAMED", "Caches", "Facts", "Target"]
