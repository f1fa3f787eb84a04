"""Checks of programs for ranges: at each extent they compute what the exact program does."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from afterglow.driver.api import compile
from afterglow.graph import Builder, Function, Module, Value
from afterglow.testing.arrays import assert_close, random_inputs
from afterglow.types import Array, TensorType
from afterglow.types.extent import Extents


def module_of(types: Sequence[TensorType], emit: Callable[..., Sequence[Value]]) -> Module:
    """A module whose main function has inputs of these types, and what `emit` makes of them."""
    module = Module()
    function = Function("main", module)
    inputs = [function.input(f"x{place}", type) for place, type in enumerate(types)]
    for place, value in enumerate(emit(Builder(function), *inputs)):
        function.output(f"y{place}", value)
    return module


def check_ranged(
    module: Module,
    runs: Iterable[Extents],
    *,
    backend: str = "cpu",
    inputs: Sequence[Array] | Callable[[Function], Sequence[Array]] = random_inputs,
    tolerance: float = 1e-5,
    **options: Any,
) -> None:
    """Compile a module once for all its extents; raise if a run differs from the exact program's.

    The exact program runs on the interpreter, on inputs that are given or made for its main
    function. Other options are those of `compile`.
    """
    model = compile(module, backend=backend, cache=False, **options)
    for extents in runs:
        exact = module.bind(extents)
        arrays = inputs(exact.main) if callable(inputs) else inputs
        feed = {value.name: x for value, x in zip(exact.main.inputs, arrays, strict=True)}
        wanted = compile(exact, backend="interpreter", cache=False).run(None, feed)
        assert_close(model.run(None, feed), wanted, tolerance)
