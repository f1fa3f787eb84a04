"""Compiling a module for the backends that options name: one, or several that share the work."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING

from afterglow.driver.devices import is_own_backend
from afterglow.driver.options import Options, is_duration
from afterglow.driver.stages import Stages, find_backend
from afterglow.graph import Module
from afterglow.runtime import CompiledFunction
from afterglow.support.errors import CompileError, UsageError
from afterglow.support.plugins import plugin_failures

if TYPE_CHECKING:
    from afterglow.driver.partitioning import Partitioned


def check_devices(options: Options, *, here: bool = False) -> None:
    """Refuse options that a backend they name cannot follow; `here`, what runs elsewhere."""
    every = [options.on(device) for device in options.devices] or [options]
    if options.devices and options.tune is not None and not is_duration(options.tune):
        raise UsageError(f"cannot tune for {options.tune} s", help="give seconds above 0")
    for each in every:
        stages = Stages(replace(each, tune=None) if options.devices else each)
        with _backend_failures(each):
            find_backend(stages.options)
            if here:
                stages.check_runs_here()


def compile_module(module: Module, options: Options) -> CompiledFunction:
    """All stages from an imported module on, for one backend or for several devices."""
    with _backend_failures(options):
        if not options.devices:
            return Stages(options).finish(module)
        return partitioned(options).finish(module)


def partitioned(options: Options) -> Partitioned:
    """The stages of a model that several devices run."""
    # here, because few models are compiled for several devices
    from afterglow.driver.partitioning import Partitioned  # noqa: PLC0415

    return Partitioned(options)


def _backend_failures(options: Options) -> AbstractContextManager[None]:
    """Turns what backends of plug-ins raise into a `CompileError`; our own bugs stay bugs."""
    backends = [device.backend for device in options.devices] or [options.backend]
    plugins = [repr(name) for name in dict.fromkeys(backends) if not is_own_backend(name)]
    if not plugins:
        return nullcontext()
    return plugin_failures(f"backend {', '.join(plugins)}", CompileError)
