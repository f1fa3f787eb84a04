"""NVIDIA GPUs: kernels in Triton's language, compiled ahead of time, run by the driver alone."""
