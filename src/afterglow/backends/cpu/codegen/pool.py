"""The linked code of the thread pool, ready to be loaded or stored."""

from __future__ import annotations

from contextlib import suppress
from functools import cache
from threading import Thread

from afterglow.backends.cpu.link import link
from afterglow.backends.cpu.llvm.compile import Compile, compile_module
from afterglow.backends.cpu.llvm.emitter import Module
from afterglow.backends.cpu.target import Target
from afterglow.backends.cpu.threads.module import pool_module
from afterglow.backends.cpu.threads.system import IMPORTS
from afterglow.runtime.native.image import Image
from afterglow.runtime.native.pool import Pool, process_pool
from afterglow.support.errors import AfterglowError


def link_pool(module: Module, compiled: Compile = compile_module) -> Image:
    """The code of a pool, ready to be loaded or stored."""
    return link([compiled(module, module.target)], module.exports, IMPORTS)


def pool_image(
    target: Target, compiled: Compile = compile_module, *, recording: bool = False
) -> Image:
    """The code of a target's pool, made once in a process."""
    key = target, recording
    if key not in _IMAGES:
        _IMAGES[key] = link_pool(pool_module(target, recording=recording), compiled)
    return _IMAGES[key]


class PoolInBackground:
    """Has a thread make a pool's code while there is nothing else to compile yet."""

    def __init__(self, target: Target, compiled: Compile) -> None:
        self._work = target, compiled
        self._thread = Thread(target=self._make, name="afterglow-pool")
        self._thread.start()

    def _make(self) -> None:
        with suppress(AfterglowError):  # whoever needs the code meets the error again
            pool_image(*self._work)

    def image(self) -> Image:
        """The code; made anew in a process that forked meanwhile, without the thread."""
        self._thread.join()
        return pool_image(*self._work)


_IMAGES: dict[tuple[Target, bool], Image] = {}


def shared_pool() -> Pool:
    """The one pool of this process; its code is made if no model has brought it."""
    return process_pool(lambda: pool_image(Target.host()))


@cache
def recording_pool() -> Pool:
    """A pool of this process whose threads log their steps."""
    return Pool(pool_image(Target.host(), recording=True))
