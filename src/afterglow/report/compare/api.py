"""`compare`, the public entry point: where a model differs from a reference, and why."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from afterglow.driver.api import loaded_profile
from afterglow.driver.backends import check_devices
from afterglow.driver.dims import DimOptions, Dims
from afterglow.driver.environment import cache_folder, max_memory_by_default
from afterglow.driver.options import GOALS, Options, check_bindings, policy_of
from afterglow.driver.placed import placed_on
from afterglow.driver.profiled import open_profiled
from afterglow.driver.random_arrays import random_array
from afterglow.frontends.onnx.source import OnnxSource
from afterglow.quantization.config import QuantizationConfig
from afterglow.quantization.profile import Profile
from afterglow.report.compare.comparer import Comparer, Progress
from afterglow.report.compare.judge import Check, Judge, tolerance_for
from afterglow.report.compare.model_graph import PartSource
from afterglow.report.compare.onnx_sides import OnnxModel
from afterglow.report.compare.passes import Bisection, PassFinding
from afterglow.report.compare.reduce import Reducer
from afterglow.report.compare.reduced import ReducedModel, write_reduced
from afterglow.report.compare.references import ENGINES, FLOAT32, find_reference, read_archive
from afterglow.report.compare.result import CompareReport
from afterglow.report.compare.sides import CompiledSide, Feed, LoadedSide, Tensors
from afterglow.runtime import CompiledModel, TensorInfo
from afterglow.runtime.logical_device import Devices
from afterglow.support.errors import UnsupportedError, UsageError
from afterglow.support.lazy_dataclass import dataclass
from afterglow.support.output_path import checked_path
from afterglow.types import Array


def compare(
    model: Any,
    ref: Any = "onnxruntime",
    inputs: Mapping[str, Array] | None = None,
    *,
    seed: int = 0,
    rtol: float | None = None,
    atol: float | None = None,
    l2: float | None = None,
    check: Callable[..., bool] | str | Path | None = None,
    bisect_passes: bool = False,
    reduce: str | Path | None = None,
    backend: Devices = "cpu",
    threads: int | None = None,
    shapes: Mapping[str, Sequence[int]] | None = None,
    dims: Dims | None = None,
    values: Mapping[str, Array] | None = None,
    precision: str = "float32",
    profile: Profile | str | Path | None = None,
    quantization: QuantizationConfig | None = None,
    optimize: bool = True,
    exact: bool = False,
    cache: bool | str | Path = True,
    progress: Progress | None = None,
) -> CompareReport:
    """Compare a compiled model with a reference, tensor by tensor: docs/find-a-wrong-layer.md.

    Args:
        model: what `compile` takes, or a compiled model, of which only outputs are compared.
        ref: "onnxruntime"; "reference", the implementation in the package onnx; "interpreter", the
            model by the definitions of its ops, not optimised; "float32", the model compiled in
            float32, for one in fewer bits; tensors by name, or the path of an .npz file with them;
            another model, or a compiled one.
        inputs: arrays by name; None for those in `ref`, if it has tensors, and random ones.
        seed: of random inputs.
        rtol: the largest error that agrees, by the largest magnitude of the reference's tensor;
            1e-4 if nothing is given.
        atol: the largest error that agrees in any case; 1e-6 if nothing is given.
        l2: judge by the norm of the error instead, divided by that of the reference; it is the
            default for precisions below float32: 0.1 for integers.
        check: what decides instead: `check(actual, expected)`, or with the name of the tensor as
            a third argument, returns whether they agree; or a Python file that defines it.
        bisect_passes: find the pass of the compiler that introduced the difference.
        reduce: write a small ONNX model that still differs to this path.
        backend: as for `compile`, as all that follows.
        threads: number of threads; by default all cores that this process may use.
        shapes: shapes of inputs by name, to bind dynamic dimensions.
        dims: extents of dimensions by name.
        values: inputs that become constants, by name.
        precision: "float32", "int8", …
        profile: what `profile` observed of the model, or the path of its file, for "int8".
        quantization: how integers are chosen for "int8".
        optimize: False disables all optimisations.
        exact: use no algorithms that round more than the definition.
        cache: folder for compiled code, True for the default one, False for none.
        progress: called with what is done, whenever that changes.
    """
    check_bindings(shapes, dims, values)
    dim_options = DimOptions.of(dims or {})
    options = Options(
        **placed_on(backend, "host", threads, None),
        shapes=shapes or {},
        dims=dim_options.bound,
        values=values or {},
        precision=precision,
        profile=loaded_profile(profile),
        quantization=quantization,
        optimize=optimize,
        policy=policy_of(exact, GOALS[0]),
        max_memory=max_memory_by_default(),
        cache=cache_folder(cache),
    )
    side = side_of(model, options, dim_options)
    asked = Asked(
        ref,
        judge_of(side, rtol, atol, l2, check),
        bisect_passes,
        None if reduce is None else checked_path(reduce, "reduced model"),
    )
    feed = _feed(side, {**known_inputs(ref), **(inputs or {})}, seed)
    return compare_with(model, side, feed, asked, progress or (lambda text: None))


@dataclass(frozen=True)
class Asked:
    """What a user wants to know."""

    reference: Any
    judge: Judge
    bisect_passes: bool = False
    reduce: Path | None = None


def judge_of(
    side: CompiledSide | LoadedSide,
    rtol: float | None,
    atol: float | None,
    l2: float | None,
    check: Callable[..., bool] | str | Path | None,
) -> Judge:
    """What decides whether tensors agree."""
    if check is None:
        if isinstance(side, LoadedSide):
            return tolerance_for("float32", rtol, atol, l2)
        quantized = side.graph is not None and side.graph.is_quantized
        return tolerance_for(side.options.precision, rtol, atol, l2, quantized=quantized)
    if (rtol, atol, l2) != (None, None, None):
        raise UsageError("a check decides alone: tolerances have no effect on it")
    return Check.load(Path(check)) if isinstance(check, (str, Path)) else Check.of(check)


def side_of(model: Any, options: Options, dim_options: DimOptions) -> CompiledSide | LoadedSide:
    """The model that is compared: one to compile, or one that is compiled."""
    if isinstance(model, CompiledModel):
        return LoadedSide("the model", model)
    if options.quantization is not None and options.quantization.quantized_io:
        raise UsageError(
            "a model that takes integers cannot be compared with one that takes floats",
            help="leave quantized inputs and outputs out: all between is the same",
        )
    check_devices(options)
    if dim_options.ahead:
        raise UsageError("a comparison is for one extent of each dimension, or for bounds")
    return CompiledSide("the model", open_profiled(model, options), options, dim_options)


def known_inputs(reference: Any) -> dict[str, Array]:
    """The arrays that come with a reference: some may be inputs of the model."""
    if isinstance(reference, Mapping):
        return {name: np.asarray(array) for name, array in reference.items()}
    is_archive = isinstance(reference, (str, Path)) and Path(reference).suffix == ".npz"
    return read_archive(Path(reference)) if is_archive and Path(reference).exists() else {}


def compare_with(
    model: Any, side: CompiledSide | LoadedSide, feed: Feed, asked: Asked, progress: Progress
) -> CompareReport:
    """Compare a model, and find out what else is asked."""
    _check_asked(side, asked)
    reference = find_reference(asked.reference, model, side, feed)
    comparer = Comparer(side, reference, asked.judge, feed, progress)
    report = comparer.compare()
    if report.first is None:
        return report
    if asked.bisect_passes:
        report = replace(report, passes=_bisected(comparer, report))
    if asked.reduce is not None:
        report = replace(report, reduced=_reduced(comparer, report, model, asked))
    return report


def _check_asked(side: CompiledSide | LoadedSide, asked: Asked) -> None:
    """Refuse what cannot be found out, before anything is run."""
    if not asked.bisect_passes and asked.reduce is None:
        return
    if isinstance(side, LoadedSide):
        raise UsageError(
            "a compiled model has neither passes nor nodes to search",
            help="give the original model",
        )
    if asked.reduce is not None and not isinstance(side.source, OnnxSource):
        raise UnsupportedError(
            "only ONNX models can be reduced: a reduced model is written as ONNX",
            help="leave --reduce out; --bisect-passes is for all models",
        )


def _bisected(comparer: Comparer, report: CompareReport) -> PassFinding:
    """The pass behind the outputs that differ, or behind the first tensor if no output does."""
    side = comparer.ours
    assert isinstance(side, CompiledSide)
    assert report.first is not None
    outputs = [x.name for x in report.differing if x.is_output]
    names = outputs or [report.first.tensor.name]
    source = side.source
    if not outputs and side.graph is not None:
        source = PartSource(side.graph.observed(names), side.source)
    expected = comparer.reference.run([x for x in names if x in comparer.known], comparer.feed)

    def differs(tensors: Tensors) -> bool:
        both = (name for name in expected if name in tensors)
        return not all(comparer.agrees(x, tensors[x], expected[x]) for x in both)

    options = side.bound(comparer.feed)
    return Bisection(source, options, comparer.feed, differs, comparer.progress).find()


def _reduced(comparer: Comparer, report: CompareReport, model: Any, asked: Asked) -> ReducedModel:
    """The small model, written to where it is asked for."""
    assert report.first is not None
    assert asked.reduce is not None
    part = Reducer(comparer, report.first.tensor.name).find()
    runs_alone = asked.reference in ENGINES and asked.reference != FLOAT32
    engine = asked.reference if runs_alone else None
    return write_reduced(part, OnnxModel.of(model), asked.reduce, engine)


def _feed(side: CompiledSide | LoadedSide, given: Mapping[str, Array], seed: int) -> dict[str, Any]:
    """An array for each input: given, or random if all of its extents are known."""
    infos = _inputs(side)
    random = np.random.default_rng(seed)
    return {x.name: given[x.name] if x.name in given else _random(x, random) for x in infos}


def _inputs(side: CompiledSide | LoadedSide) -> Sequence[TensorInfo]:
    if isinstance(side, LoadedSide):
        return side.model.inputs
    return side.source.signature(side.options).inputs


def _random(info: TensorInfo, random: np.random.Generator) -> Array:
    if info.dtype is None or not info.is_exact:
        raise UsageError(
            f"input '{info}' has dynamic dimensions, or is no tensor",
            help=f"give an array: inputs={{{info.name!r}: array}}",
        )
    return random_array(info.dtype, info.exact_shape, random)
