"""NVIDIA GPUs as targets: what code is compiled for, and what plans are made from."""

from afterglow.backends.cuda.driver.names import DEVICE, EMULATED
from afterglow.backends.cuda.target.kinds import KINDS, CudaTarget, kind_of

__all__ = ["DEVICE", "EMULATED", "KINDS", "CudaTarget", "kind_of"]
