"""Arrays that are views of a mapped file."""

from __future__ import annotations

import numpy as np

from afterglow.support.regular_file import FileMap
from afterglow.types.array import Array


def release_pages(array: Array) -> None:
    """Give back the memory of an array that is a view of a mapped file, until it is read again.

    Others are left as they are: a mapping that somebody else made may have been written.
    """
    base: object = array
    while isinstance(base, np.ndarray):
        base = base.base
    file = base.obj if isinstance(base, memoryview) else base
    if not isinstance(file, FileMap) or not array.size:
        return
    begin = array.ctypes.data - np.frombuffer(file, np.uint8).ctypes.data
    steps = [(n - 1) * stride for n, stride in zip(array.shape, array.strides, strict=True)]
    first = begin + sum(step for step in steps if step < 0)
    last = begin + sum(step for step in steps if step > 0)
    file.release(first, last + array.itemsize)
