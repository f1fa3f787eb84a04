"""Kernels on the processor, by Triton's own interpreter: for tests and for debugging."""
