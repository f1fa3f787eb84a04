"""`compile`: the public way in. The compiler is imported when there is something to compile."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from afterglow.driver import pickling  # noqa: F401  tells pickle about compiled models
from afterglow.driver.dims import Dims, Wishes
from afterglow.driver.environment import (
    cache_folder,
    max_memory_by_default,
    perf_map_by_default,
    verify_by_default,
)
from afterglow.driver.kept import find_kept
from afterglow.driver.options import Options, Progress, check_bindings, policy_of
from afterglow.runtime import CompiledModel
from afterglow.support.sizes import as_size
from afterglow.types import Array


def compile(
    source: Any,
    *,
    backend: str = "cpu",
    target: str = "host",
    threads: int | None = None,
    shapes: Mapping[str, Sequence[int]] | None = None,
    dims: Dims | None = None,
    values: Mapping[str, Array] | None = None,
    optimize: bool = True,
    lend_inputs: bool = False,
    max_arena: int | str | None = None,
    max_memory: int | str | None = None,
    exact: bool = False,
    optimize_for: str = "speed",
    unchecked: bool = False,
    precision: str = "float32",
    tune: float | None = None,
    cache: bool | str | Path = True,
    verify: bool | None = None,
    progress: Progress | None = None,
) -> CompiledModel:
    """Compile a model: a path, bytes, an `onnx.ModelProto`, or a `Module` built by hand.

    `target` is the machine to make code for, `threads` how many run it: as many as this process may
    keep busy, if it is not said. `shapes` and `dims` bind free dimensions, by input or by name;
    `values` makes inputs constant. What stays free is bound by the first call, and by each call
    with other shapes; of a dimension `dims` may also have a list of extents to compile ahead, or a
    tuple of the first and the last extent that calls may bring. `lend_inputs` lets a run use the
    memory of its input arrays: what they hold afterwards is undefined. `max_arena` is the most that
    intermediate results may take, in bytes or as text such as "256KiB"; if they take more, nodes
    are computed in parts, and some of it twice. `max_memory` is the most that a single tensor may
    take, and all memory of a run; a model that asks for more is refused before it gets any. By
    default that follows from the sizes of the model and its inputs, and from the memory there is:
    see docs/memory.md.
    `exact` forms every sum as it is defined, without algorithms that save multiplications and round
    more: see docs/accuracy.md. `optimize_for` is "speed", or "memory" if weights must not take more
    than they do in the model. `unchecked` takes the nearest for an index that is out of range,
    which is an error otherwise: see docs/errors.md. `precision` is "float32", or "weights_bf16" or
    "weights_f16" if weights of layers that wait for memory are to be held in 16 bits, rounded once;
    the arithmetic stays that of float32. `tune` tries the algorithms that kernels choose between,
    for so many seconds, rather than to go by estimates.
    `cache` is the folder in which compiled code is kept, True for the usual one, False for none.
    `verify` checks the program after each pass, and each instruction as it runs.
    """
    check_bindings(shapes, dims, values, target)
    wishes = Wishes.of(dims or {})
    options = Options(
        backend=backend,
        target=target,
        threads=threads,
        shapes=shapes or {},
        dims=wishes.fixed,
        values=values or {},
        optimize=optimize,
        lend_inputs=lend_inputs,
        max_arena=None if max_arena is None else as_size(max_arena),
        max_memory=max_memory_by_default() if max_memory is None else as_size(max_memory),
        policy=policy_of(exact, optimize_for, unchecked),
        precision=precision,
        tune=tune,
        cache=cache_folder(cache),
        verify=verify_by_default() if verify is None else verify,
        perf_map=perf_map_by_default(),
        progress=progress,
    )
    kept = None if wishes.ahead or wishes.ranges else find_kept(source, options)
    if kept is not None:
        return kept
    # here, because importing the compiler takes longer than loading a model that was kept
    from afterglow.driver.compile import compile_with  # noqa: PLC0415

    return compile_with(source, options, wishes)
