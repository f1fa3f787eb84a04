"""The pool of this process, as Python calls it."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

from afterglow.backends.cpu.compile import compile_module
from afterglow.backends.cpu.emitter import Module
from afterglow.backends.cpu.image import Image, Loaded, link, load_image
from afterglow.backends.cpu.pool.module import RUN, RUN_ALONE, pool_module
from afterglow.backends.cpu.pool.system import IMPORTS
from afterglow.backends.cpu.target import Target

Compile = Callable[[Module, Target], bytes]
"""From a module to its object code: `compile_module`, or something that remembers."""


def link_pool(module: Module, compiled: Compile = compile_module) -> Image:
    """The code of a pool, ready to be loaded or stored."""
    return link([compiled(module, module.target)], module.exports, IMPORTS)


def host_pool() -> Image:
    """The code of a pool for this machine."""
    return link_pool(pool_module(Target.host()))


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

        `scratch` has `scratch_bytes` for each thread, `counters` have `COUNTER_BYTES` for each
        step; no other run may use them meanwhile. If the workers are busy, the run is alone.
        """
        self.run_alone: Any = loaded.function(RUN_ALONE, address, address, address)
        """`run_alone(main, bases, scratch)`, on the calling thread."""


def shared_pool(image: Callable[[], Image] = host_pool) -> Pool:
    """The one pool of this process: its code is loaded now if need be, its threads by the runs."""
    if not _POOLS:
        # Of threads that come here at once one wins; a lock could be left taken by a fork.
        _POOLS.setdefault("shared", Pool(image()))
    return _POOLS["shared"]


_POOLS: dict[str, Pool] = {}


def _keep_forever(loaded: Loaded) -> None:
    """Workers are in this code until the process is gone, which is after Python has ended."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(loaded))
