"""Times as people read them."""

from __future__ import annotations


def duration(seconds: float) -> str:
    """A time as text, in µs, ms or s."""
    if seconds < 1e-5:
        return f"{seconds * 1e6:.1f} µs"
    if seconds < 1e-3:
        return f"{seconds * 1e6:.0f} µs"
    return f"{seconds * 1e3:.1f} ms" if seconds < 1 else f"{seconds:.2f} s"
