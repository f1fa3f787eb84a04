"""Caches of keys and values: rows written into them, and attention over them."""

from afterglow.backends.cpu.kernels.cached_attention import attend, write_rows  # noqa: F401
