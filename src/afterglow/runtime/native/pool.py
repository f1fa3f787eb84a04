"""The pool of threads of this process, as Python calls it."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

from afterglow.runtime.native.convention import RUN, RUN_ALONE
from afterglow.runtime.native.image import Image
from afterglow.runtime.native.load import Loaded, load_image


class Pool:
    """The functions of a pool, to be called with addresses as whole numbers.

    Python's lock is released while they run.
    """

    def __init__(self, image: Image) -> None:
        process = ctypes.CDLL(None)
        needed = image.imports or {}
        addresses = {
            name: ctypes.cast(getattr(process, name), ctypes.c_void_p).value or 0 for name in needed
        }
        loaded = load_image(image, addresses)
        _keep_forever(loaded)
        address, number = ctypes.c_void_p, ctypes.c_int64
        self.run: Any = loaded.function(
            RUN, address, address, address, number, address, number, number
        )
        """`run(main, bases, scratch, scratch_bytes, counters, steps, threads)`.

        `scratch` has `scratch_bytes` for each thread, `counters` are as `counter_bytes` says; no
        other run may use them meanwhile. If the workers are busy, the run is alone.
        """
        self.run_alone: Any = loaded.function(RUN_ALONE, address, address, address)
        """`run_alone(main, bases, scratch)`, on the calling thread."""


def process_pool(image: Callable[[], Image]) -> Pool:
    """The one pool of this process: its code is loaded now if need be, its threads by the runs."""
    if not _POOLS:
        # Of threads that come here at once one wins; a lock could be left taken by a fork.
        _POOLS.setdefault("shared", Pool(image()))
    return _POOLS["shared"]


_POOLS: dict[str, Pool] = {}


def _keep_forever(loaded: Loaded) -> None:
    """Workers are in this code until the process is gone, which is after Python has ended."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(loaded))
