"""`compile`, the public entry point; imports the compiler only if the model is not cached."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from afterglow.driver import pickling  # noqa: F401  tells pickle about compiled models
from afterglow.driver.cached import find_cached
from afterglow.driver.dims import DimOptions, Dims
from afterglow.driver.environment import (
    cache_folder,
    max_memory_by_default,
    perf_map_by_default,
    verify_by_default,
)
from afterglow.driver.options import (
    Options,
    Progress,
    cache_type_of,
    check_bindings,
    checkpoint_of,
    name_list,
    policy_of,
)
from afterglow.driver.placed import placed_on
from afterglow.driver.rounding import rounding_by
from afterglow.runtime import CompiledModel
from afterglow.runtime.logical_device import Devices
from afterglow.support.collection import without_collecting
from afterglow.support.packages import needed_for
from afterglow.support.sizes import as_size
from afterglow.types import Array

if TYPE_CHECKING:  # what quantizes is imported with the compiler
    from afterglow.partition.config import PartitionConfig
    from afterglow.quantization.config import QuantizationConfig
    from afterglow.quantization.profile import Profile


def compile(
    source: Any,
    example_inputs: Any = None,
    *,
    dynamic_shapes: Any = None,
    backend: Devices = "cpu",
    target: str = "host",
    threads: int | None = None,
    streams: int = 1,
    partition: PartitionConfig | None = None,
    shapes: Mapping[str, Sequence[int]] | None = None,
    dims: Dims | None = None,
    values: Mapping[str, Array] | None = None,
    state: Mapping[str, str] | None = None,
    optimize: bool = True,
    donate_inputs: bool = False,
    max_arena: int | str | None = None,
    checkpoint: int | str | Sequence[str] | None = None,
    max_memory: int | str | None = None,
    exact: bool = False,
    optimize_for: str = "balance",
    unchecked: bool = False,
    precision: str = "float32",
    profile: Profile | str | Path | None = None,
    quantization: QuantizationConfig | None = None,
    round_weights: Any = None,
    keep: Sequence[str] = (),
    allow: Sequence[str] = (),
    activations: str | None = None,
    cache_type: str = "float32",
    tune: float | None = None,
    cache: bool | str | Path = True,
    verify: bool | None = None,
    progress: Progress | None = None,
) -> CompiledModel:
    """Compile a model: a path, bytes, or an object such as an `onnx.ModelProto`.

    Objects are also a `torch.export.ExportedProgram`, a `torch.nn.Module` with example inputs, a
    pair of Caffe2 nets, and a `Module` built by hand.

    A dimension with bounds is compiled once for all extents within them. What is not bound here is
    bound by calls, and the model is compiled for what they bring: see docs/shapes.md.

    Args:
        source: the model.
        example_inputs: what a `torch.nn.Module` is traced with: docs/pytorch.md.
        dynamic_shapes: which of their extents are dynamic, as `torch.export.export` takes it.
        backend: "cpu", "opencl", "interpreter", "primitives", or the name of a plug-in; a list of
            these or of `LogicalDevice`s, over which the model is partitioned; or "auto" for all
            devices of this machine: docs/partitioning.md.
        target: the machine to generate code for, such as "host" or "x86-64-v3".
        threads: number of threads; by default all cores that this process may use, or an equal
            part of them for each stream.
        streams: how many runs have cores of their own at the same time; further ones wait:
            docs/serving.md.
        partition: how a model is partitioned over several devices; None for the fastest run.
        shapes: shapes of inputs by name, to bind dynamic dimensions.
        dims: extents of dimensions by name: a number; a text such as "past + 1" for an expression
            over other dimensions; a tuple of the smallest and largest extent that calls may have,
            and of a step if extents are multiples of one; or a list of extents that are compiled
            ahead of any call.
        values: inputs that become constants, by name.
        state: inputs that the model keeps from call to call, by name: each with the output that
            it has in the next call; a star in both names stands for the same text: docs/state.md.
        optimize: False disables all optimisations.
        donate_inputs: let a run use the memory of its input arrays, whose contents are undefined
            afterwards.
        max_arena: limit for intermediate results and workspace, in bytes or as text such as
            "256KiB"; if it is exceeded, nodes are split and computed in parts, and a training
            step computes values again instead of keeping them.
        checkpoint: what a training step keeps for its backward pass, where it computes the rest
            again: the number of segments of which it keeps the ends, patterns of names of nodes
            whose results it keeps, or "auto" for the least memory: docs/memory.md.
        max_memory: limit for a single tensor and for a run; a model that needs more is rejected.
            The default depends on the model and on the available memory: see docs/memory.md.
        exact: use no algorithms that round more than the definition: see docs/accuracy.md.
        optimize_for: "balance": packed weights take at most 1.5 times the memory that they take in
            the model; "speed" if they may take any, "memory" if no more than in the model.
        unchecked: clamp indices that are out of range instead of raising: see docs/errors.md.
        precision: "float32"; "float16" or "bfloat16" to compute with floats of 16 bits where range
            and precision allow it; "weights_bf16" or "weights_f16" to store the weights of
            memory-bound layers in 16 bits, "weights_int8", "weights_int4" or "weights_f8" to store
            those of products and embeddings as integers of 8 or 4 bits or floats of 8; the
            arithmetic remains float32. "dynamic_int8"
            computes products in integers, with a scale for each row as it comes; "int8" computes
            in integers that a profile chooses.
        profile: what `profile` observed of the model, or the path of its file, for "int8"; for
            "float16" it says what does not fit.
        quantization: how integers are chosen for "int8": docs/quantization.md.
        round_weights: samples, as `profile` takes them, by which weights are rounded to integers
            so that layers compute the least error; None for the nearest integers.
        keep: what stays in f32, for "float16", "bfloat16" and "int8": names of nodes of the model,
            patterns with stars, and for floats also ops, such as "conv".
        allow: ops that compute in "float16" or "bfloat16" although they do not by default.
        activations: what products with matrices stored in blocks multiply: "float32", or "int8" for
            rows rounded to 8 bits in blocks; None for what the model says: docs/accuracy.md.
        cache_type: what a GGUF or Hugging Face model keeps its keys and values in: "float32", or
            "float16" or "int8" for a half or about a quarter of the memory: docs/text.md.
        tune: measure candidate algorithms for about this many seconds instead of estimating.
        cache: folder for compiled code, True for the default one, False for none.
        verify: check the program after each pass, and each instruction as it runs.
        progress: called with the name of each stage when it begins.
    """
    if example_inputs is not None or dynamic_shapes is not None:
        # here, because importing the front ends takes longer than loading a cached model
        from afterglow.frontends.base import Traced  # noqa: PLC0415

        source = Traced(source, example_inputs, dynamic_shapes)
    check_bindings(shapes, dims, values, state=state, target=target)
    dim_options = DimOptions.of(dims or {})
    options = Options(
        **placed_on(backend, target, threads, partition),
        streams=streams,
        shapes=shapes or {},
        dims=dim_options.bound,
        values=values or {},
        state=state or {},
        optimize=optimize,
        donate_inputs=donate_inputs,
        max_arena=None if max_arena is None else as_size(max_arena),
        checkpoint=checkpoint_of(checkpoint),
        max_memory=max_memory_by_default() if max_memory is None else as_size(max_memory),
        policy=policy_of(exact, optimize_for, unchecked),
        precision=precision,
        profile=loaded_profile(profile),
        quantization=quantization,
        keep=name_list("keep", keep),
        allow=name_list("allow", allow),
        activations=activations,
        cache_type=cache_type_of(cache_type),
        tune=tune,
        cache=cache_folder(cache),
        verify=verify_by_default() if verify is None else verify,
        perf_map=perf_map_by_default(),
        progress=progress,
    )
    options = rounding_by(round_weights, source, options, dim_options)
    cached = None if dim_options.ahead else find_cached(source, options)
    if cached is not None:
        return cached
    with needed_for("compiling a model"):
        with without_collecting(permanent=True):
            # here, because importing the compiler takes longer than loading a cached model
            from afterglow.driver.compile import compile_with  # noqa: PLC0415

        return compile_with(source, options, dim_options)


def loaded_profile(profile: Profile | str | Path | None) -> Profile | None:
    """A profile, loaded if it is a path."""
    if not isinstance(profile, (str, Path)):
        return profile
    # here, because a model that is not quantized needs none of it
    from afterglow.quantization.profile import Profile  # noqa: PLC0415

    return Profile.load(profile)
