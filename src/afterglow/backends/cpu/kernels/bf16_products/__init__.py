"""Products of bf16 with sums in f32, by instructions for pairs of them and by tiles.

They are what products of bytes are, with two elements in a word of 32 bits instead of four.
"""

from __future__ import annotations

from afterglow.backends.cpu.kernels.bf16_products.choose import bf16_algorithms

__all__ = ["bf16_algorithms"]
