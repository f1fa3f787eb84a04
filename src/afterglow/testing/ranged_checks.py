"""Checks of programs for ranges: at each extent they compute what the exact program does."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from afterglow.driver.api import compile
from afterglow.graph import Module
from afterglow.testing.arrays import assert_close, random_inputs
from afterglow.types import Array
from afterglow.types.extent import Extents


def check_ranged(
    module: Module,
    runs: Iterable[Extents],
    *,
    backend: str = "cpu",
    target: str = "host",
    threads: int | None = None,
    inputs: Sequence[Array] = (),
    tolerance: float = 1e-5,
) -> None:
    """Compile a module once for all its extents; raise if a run differs from the exact program's.

    The exact program runs on the interpreter. Inputs that are not given are drawn at random.
    """
    model = compile(module, backend=backend, target=target, threads=threads, cache=False)
    for extents in runs:
        exact = module.bind(extents)
        arrays = inputs or random_inputs(exact.main)
        feed = {value.name: x for value, x in zip(exact.main.inputs, arrays, strict=True)}
        wanted = compile(exact, backend="interpreter", cache=False).run(None, feed)
        assert_close(model.run(None, feed), wanted, tolerance)
