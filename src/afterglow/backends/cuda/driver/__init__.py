"""The CUDA driver behind a small interface: `protocol` says it, `cuda` is libcuda by ctypes."""
