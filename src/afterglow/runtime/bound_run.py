"""Runs that are bound to arrays: checked once, then begun again and again."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from afterglow.runtime.version import Version
from afterglow.support.errors import UsageError


class BoundRun:
    """A run on arrays that were given once: a call runs on what they hold by then.

    `outputs` is what a call of the model returns. Every run writes into these arrays; those on a
    GPU are complete for what is begun on the stream of the inputs afterwards.
    """

    __slots__ = ("_run", "outputs")

    def __init__(self, run: Callable[[], Any], outputs: Any) -> None:
        self._run = run
        self.outputs = outputs

    def __call__(self) -> Any:
        """Run once more; returns the outputs."""
        self._run()
        return self.outputs


def bound_on_host(
    version: object, arrays: Mapping[str, Any]
) -> tuple[Callable[[], Any], Sequence[Any]]:
    """What runs on such arrays of the host, and the arrays that it writes."""
    if not isinstance(version, Version) or version.value_inputs:
        raise _unbindable("its shapes depend on the values of inputs")
    compiled = version.compiled
    if compiled.grows or len(version.forms) != len(compiled.interface.outputs):
        raise _unbindable("only a run knows the shapes of its outputs")
    types = compiled.output_types(version.inputs_of(arrays))
    targets = {i: np.empty(type.shape, type.dtype.numpy) for i, type in enumerate(types)}
    return partial(version.run_into, arrays, targets), [*targets.values()]


def _unbindable(why: str) -> UsageError:
    return UsageError(
        f"the model cannot be bound to arrays: {why}", help="call it, or compile it with shapes="
    )
