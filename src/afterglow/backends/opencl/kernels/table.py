"""The kernels of the OpenCL backend, by op."""

from __future__ import annotations

from afterglow.backends.items.anchors import AnchorTable
from afterglow.backends.items.families import SHARED
from afterglow.backends.opencl.kernels.kernel import Kernel, KernelSource
from afterglow.backends.opencl.limits import Limits

ANCHORS: AnchorTable[Limits, KernelSource] = AnchorTable(Kernel, SHARED)
