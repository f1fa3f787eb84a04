"""The names of sections in artifacts for CUDA; others are in `launched.memories`."""

SOURCE, CUBIN = "source", "cubin."
"""The text of all kernels, and how those of machine code begin, one for each kernel."""
