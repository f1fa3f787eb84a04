"""What is passed to the driver and kept of it: structures of C, and handles."""

from __future__ import annotations

import ctypes

from afterglow.support.lazy_dataclass import dataclass

PROGRAMMATIC = 6
"""The attribute of a launch that lets it begin before the one in front of it has ended."""


class LaunchAttribute(ctypes.Structure):
    """The driver's `CUlaunchAttribute`, whose value is one number."""

    _fields_ = (
        ("id", ctypes.c_int),
        ("pad", ctypes.c_int),
        ("value", ctypes.c_int * 16),
    )


class LaunchConfig(ctypes.Structure):
    """The driver's `CUlaunchConfig`."""

    _fields_ = (
        ("grid", ctypes.c_uint * 3),
        ("block", ctypes.c_uint * 3),
        ("shared", ctypes.c_uint),
        ("stream", ctypes.c_void_p),
        ("attributes", ctypes.c_void_p),
        ("attribute_count", ctypes.c_uint),
    )


@dataclass(frozen=True)
class LoadedKernel:
    """A kernel, and the module that it is the only one of."""

    module: int
    function: int


@dataclass(frozen=True)
class CudaEvent:
    """An event of the driver."""

    handle: int
    timed: bool
