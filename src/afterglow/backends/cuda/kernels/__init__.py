"""Kernels of the CUDA backend, one file per family; importing them fills the table."""
