"""Names that a process which runs compiled models needs to know of this backend."""

DEVICE = "cuda"
"""The name of the backend and of its device."""
EMULATED = "emulated"
"""The target whose kernels run on the processor, by Triton's interpreter."""
