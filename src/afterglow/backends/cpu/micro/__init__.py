"""The library that kernels are written with, from the register tile to rows and windows.

It knows how a kernel is written (`job`, `kernel`, `fusion`, `rows`), how its cost is estimated, and
the inner loops that op families have in common; it knows no particular kernel.
"""
