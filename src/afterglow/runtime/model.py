"""The compiled model that users call."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from afterglow.runtime.background import in_background
from afterglow.runtime.bound_run import BoundRun, bound_on_host
from afterglow.runtime.bundle import (
    Bundle,
    BundleRequest,
    bundle_folder,
    is_small,
    several_ranges,
)
from afterglow.runtime.compiled import CompiledFunction, MemoryReport
from afterglow.runtime.device_arrays import device_tensor, is_on_gpu
from afterglow.runtime.extents import Shape, check_extents
from afterglow.runtime.foreign_arrays import device_library_of, library_of
from afterglow.runtime.inputs import checked_input
from afterglow.runtime.model_html import model_html
from afterglow.runtime.output_targets import copied_into, targets_of
from afterglow.runtime.saved import check_replaceable, save_versions, saved_bytes
from afterglow.runtime.segmented import SegmentedVersion
from afterglow.runtime.signature import Signature, TensorInfo
from afterglow.runtime.version import SourceLeft, Specialiser, Version
from afterglow.runtime.versions import Key, Versions, by_input
from afterglow.support.errors import AfterglowError, UsageError
from afterglow.support.lazy_dataclass import dataclass
from afterglow.support.output_path import checked_path, writing
from afterglow.types import Array
from afterglow.types.extent import Dim

if TYPE_CHECKING:
    from concurrent.futures import Future


MOST_RECENT = 1024
"""How many calls are remembered that the version that ran last takes."""


class CompiledModel:
    """A model ready to run: call it with arrays, by position or by name.

    A model with static shapes is compiled once, as is one whose dynamic dimensions all have bounds.
    Otherwise it is compiled for the shapes that calls bring, and for the values of inputs that
    determine shapes; these versions are cached. `ranges` limits the extents of dynamic dimensions
    by name, `versions` are those already compiled.
    """

    def __init__(
        self,
        signature: Signature,
        specialiser: Specialiser,
        static: Version | None,
        ranges: Mapping[str, Dim] | None = None,
        versions: Versions[Version | SegmentedVersion] | None = None,
    ) -> None:
        self._signature = signature
        self._specialiser = specialiser
        self._static = static
        self._ranges = ranges or {}
        self._versions = Versions() if versions is None else versions
        self._recent: _Recent | None = None

    def __copy__(self) -> CompiledModel:
        return CompiledModel(
            self._signature, self._specialiser, self._static, self._ranges, self._versions
        )

    def __deepcopy__(self, memo: dict[int, Any]) -> CompiledModel:
        """A copy with its own states and versions, which shares code and constants."""
        static, versions = deepcopy(self._static, memo), deepcopy(self._versions, memo)
        return CompiledModel(self._signature, self._specialiser, static, self._ranges, versions)

    @property
    def inputs(self) -> tuple[TensorInfo, ...]:
        """Name, element type and shape of each input."""
        return self._signature.inputs

    @property
    def outputs(self) -> tuple[TensorInfo, ...]:
        """Name, element type and shape of each output; only the name if it is not a tensor."""
        return self._signature.outputs

    @property
    def memory(self) -> MemoryReport:
        """Bytes needed by the version that ran last, or by the only one, at its largest extents."""
        return self.compiled.memory

    @property
    def compiled(self) -> CompiledFunction:
        """The version that ran last, or the only one."""
        if self._static is not None:
            return self._static.compiled
        if not self._versions:
            raise self._not_compiled()
        return self._versions.all()[-1].compiled

    @property
    def is_static(self) -> bool:
        """Whether all shapes are static, so that there is one version."""
        return self._static is not None

    @property
    def dims(self) -> dict[str, tuple[int, int, int]]:
        """The smallest and largest extent of each ranged dimension, and its step, by name.

        They are those of the version that ran last, or of the only one.
        """
        if not self.versions():
            return {}
        dims = self.compiled.interface.dims
        return {dim.name: (dim.low, dim.high, dim.step) for dim in dims}

    @property
    def attachments(self) -> Mapping[str, bytes | memoryview]:
        """What came with the source, by name: "text" is what a language model says about texts."""
        found = (v.attachments for v in self.versions() if isinstance(v, Version))
        return next(found, {})

    @property
    def refused_ranges(self) -> Mapping[str, str]:
        """The dimensions that are compiled for one extent at a time, each with the reason."""
        return self._specialiser.refused_ranges()

    def versions(self) -> list[Version | SegmentedVersion]:
        """The compiled versions, the one that ran last at the end."""
        return self._versions.all() if self._static is None else [self._static]

    def shapes_held(self) -> list[dict[str, Shape]]:
        """The input shapes, by name, for which there is a compiled version, without repetition."""
        keys = dict.fromkeys(key.shapes for key, _ in self._versions.items())
        return [by_input(self.inputs, shapes) for shapes in keys]

    def keep(self, version: Version | SegmentedVersion, shapes: Iterable[Shape]) -> None:
        """Add a compiled version for the given input shapes."""
        self._versions.keep(Key(tuple(shapes)), version)

    def save(self, path: str | Path, *, force: bool = False) -> None:
        """Save the model, with every compiled version, as one file that `afterglow.load` reads.

        A model with data-dependent shapes is compiled further as it runs, also after loading: the
        file then contains the rest of the source after the first subgraph. An existing file that
        is not a compiled model is overwritten only with `force`.
        """
        path = checked_path(path, "saved model")
        source = self._source_left()
        with writing(path):
            if not force:
                check_replaceable(path)
            made = self._specialiser.made_from()
            versions = self._static or self._versions
            save_versions(path, self._signature, versions, source, made=made)

    def saved_bytes(self) -> bytes:
        """The bytes of the file that `save` writes."""
        versions, made = self._static or self._versions, self._specialiser.made_from()
        return saved_bytes(self._signature, versions, self._source_left(), made=made)

    def _source_left(self) -> SourceLeft | None:
        """The rest of the source that a saved model compiles as it runs, if any."""
        if not self.versions():
            raise self._not_compiled()
        boundaries = [v.boundary for v in self.versions() if isinstance(v, SegmentedVersion)]
        return self._specialiser.source_left(boundaries) if boundaries else None

    def _not_compiled(self) -> UsageError:
        free = not all(info.is_exact for info in self.inputs)
        reason = "it has dynamic dimensions" if free else "it has data-dependent shapes"
        return UsageError(
            f"nothing of the model is compiled yet: {reason}",
            help="bind them with shapes= or dims=, or run it once" if free else "run it once",
        )

    def export_bundle(
        self,
        folder: str | Path,
        *,
        target: str = "host",
        name: str | None = None,
        embed_weights: bool = False,
        freestanding: bool = False,
        optimize_for: str = "speed",
        shared: bool = False,
        force: bool = False,
    ) -> Bundle:
        """Compile the model for a target, to files that a C program links: see docs/bundles.md.

        The folder gets an object file, a header, the weights (unless they are embedded in the
        object), a description, and a program with build files. A freestanding object needs no C
        library. `optimize_for` is "speed" or "size". `shared` also links a shared library, which
        `afterglow.load` reads. A model with dynamic dimensions is exported for the shapes of all
        compiled versions, one that is compiled for ranges as a single entry that is given its
        extents. Files in the folder that are not of a bundle are overwritten only with `force`.
        """
        path = bundle_folder(folder)
        versions = self._whole_versions()
        small, bindings = is_small(optimize_for), self._bindings(versions)
        request = BundleRequest(target, name, embed_weights, freestanding, small, bindings, force)
        with writing(path):
            return self._specialiser.export(request, path, shared=shared)

    def _bindings(self, versions: Sequence[Version]) -> list[dict[str, tuple[int, ...]]]:
        """The input shapes of each version; empty if the model has static shapes."""
        if self._static is not None:
            return []
        if not versions:
            raise self._not_compiled()
        if len(versions) > 1 and any(version.compiled.interface.dims for version in versions):
            raise several_ranges(len(versions))
        return [
            {info.name: port.type.shape for info, port in zip(infos, ports, strict=True)}
            for infos, ports in (
                (version.signature.inputs, version.compiled.interface.inputs)
                for version in versions
            )
        ]

    def _whole_versions(self) -> list[Version]:
        """All versions; raises if one depends on data or values, not only on shapes."""
        if self._versions.value_inputs:
            names = ", ".join(sorted(self._versions.value_inputs))
            raise UsageError(
                f"shapes in the model depend on the values of {names}: a bundle has exact shapes",
                help="bind them with values=, and export the model then",
            )
        versions = [version for version in self.versions() if isinstance(version, Version)]
        if len(versions) < len(self.versions()):
            raise UsageError(
                "the model has data-dependent shapes, which a bundle cannot compile at run time",
                help="save it as FILE.agc, or export a model that ends before these nodes",
            )
        return versions

    def ir(self, stage: str = "instructions") -> str:
        """The text of a stage: import, graph, lowered, instructions, llvm or asm."""
        return self._specialiser.stage(stage)

    def __call__(self, *arrays: Any, **named: Any) -> Any:
        """Run on arrays by position or by name; returns one array, or a tuple of several.

        A single dictionary gives inputs by name. Sequences are lists of arrays, and an empty
        optional is None, as inputs and outputs. Python lists and numbers are converted to arrays
        of the input's element type. Arrays of other libraries, such as PyTorch and JAX, are read
        where they lie; outputs are arrays of that library, then. A model for CUDA that is given
        arrays on its GPU runs on their stream, and its outputs stay there.
        """
        return one_or_all(self._run_all(self._feed(arrays, named)))

    def run_into(self, outputs: Any, *arrays: Any, **named: Any) -> Any:
        """Run as a call does, with outputs written into given arrays; returns what a call does.

        `outputs` is an array, a sequence of one for each output, or a dictionary of arrays by the
        names of some outputs. They must be contiguous arrays, or tensors of another library in the
        memory of the CPU, with the element types and shapes of the outputs. Nothing is copied
        unless one shares memory with an input, or a part of the model runs on another device or on
        the host. After an error their contents are undefined.
        """
        targets = targets_of(self.outputs, outputs)
        feed = self._feed(arrays, named)
        recent = self._recent
        if recent is not None and recent.takes(feed):
            results = self._run_into(recent.version, feed, targets)
        else:
            checked = self._checked(feed)
            version = self._version_for(checked)
            results = self._run_into(version, checked, targets)
            self._remember(version, checked)
        return one_or_all(_as_given(feed, results))

    def bind(self, *arrays: Any, **named: Any) -> BoundRun:
        """Bind a run to arrays, given as in a call: `run = model.bind(x)`, then `run()`.

        Each run reads what the arrays hold by then and writes into the same `run.outputs`; nothing
        is checked again. Arrays on a GPU are read where they lie, on the stream that they come
        with, which also writes them.
        """
        feed = self._feed(arrays, named)
        if any(map(is_on_gpu, feed.values())) and self._runs_on_device:
            version, given, convert = self._given_on_device(feed)
            run = version.bind_on_device(given) if isinstance(version, Version) else None
            if run is not None:
                found = run.outputs if convert is None else [*map(convert, run.outputs)]
                return BoundRun(run, one_or_all(found))
        checked = self._checked(feed)
        start, outputs = bound_on_host(self._version_for(checked), checked)
        return BoundRun(start, one_or_all(_as_given(feed, [*outputs])))

    def _run_into(
        self,
        version: Version | SegmentedVersion,
        arrays: Mapping[str, Any],
        targets: Mapping[int, Array],
    ) -> list[Any]:
        """The outputs of a run, those at the places of `targets` in these arrays."""
        try:
            if isinstance(version, Version):
                return version.run_into(arrays, targets)
            names = [info.name for info in self.outputs]
            return copied_into(targets, version.run(arrays), names)
        except MemoryError:
            raise _out_of_memory(version) from None

    def _feed(self, arrays: Sequence[Any], named: Mapping[str, Any]) -> Mapping[str, Any]:
        """What a caller gives by position or by name, by name."""
        if len(arrays) == 1 and type(arrays[0]) is dict and not named and self._takes_tensors:
            return arrays[0]
        if len(arrays) > len(self.inputs):
            listed = ", ".join(info.name for info in self.inputs)
            raise UsageError(
                f"the model takes {_counted(len(self.inputs), 'input')}, got {len(arrays)}",
                help=f"it takes {listed}" if listed else "",
            )
        feed = {info.name: array for info, array in zip(self.inputs, arrays, strict=False)}
        twice = [name for name in named if name in feed]
        if twice:
            raise UsageError(f"input {twice[0]!r} is given by position and by name")
        return {**feed, **named}

    def _run_all(self, feed: Mapping[str, Any]) -> list[Any]:
        """All outputs, as the kind of arrays that was given."""
        if any(map(is_on_gpu, feed.values())) and self._runs_on_device:
            found = self._run_on_device(feed)
            if found is not None:
                return found
        return _as_given(feed, self.run(None, feed))

    @property
    def _runs_on_device(self) -> bool:
        """Whether a version takes arrays in the memory of a device where they lie."""
        versions = (version for version in self.versions() if isinstance(version, Version))
        return any(version.compiled.on_device is not None for version in versions)

    def _run_on_device(self, feed: Mapping[str, Any]) -> list[Any] | None:
        """All outputs, on the GPU where inputs lie; None if the version does not run there."""
        version, arrays, convert = self._given_on_device(feed)
        outputs = version.run_on_device(arrays) if isinstance(version, Version) else None
        return outputs if outputs is None or convert is None else [*map(convert, outputs)]

    def _given_on_device(
        self, feed: Mapping[str, Any]
    ) -> tuple[Version | SegmentedVersion | None, dict[str, Any], Callable[[Any], Any] | None]:
        """The version for arrays on a GPU, those as it takes them, and what its outputs become."""
        given = {n: device_tensor(a) if is_on_gpu(a) else a for n, a in feed.items()}
        arrays = self._checked(given)
        version = self._static or self._version_at_hand(arrays)
        return version, arrays, device_library_of(feed.values())

    def _version_at_hand(self, arrays: Mapping[str, Any]) -> Version | SegmentedVersion | None:
        """The version for inputs of such shapes, if there is one that no values decide."""
        if self._versions.value_inputs or not all(hasattr(a, "shape") for a in arrays.values()):
            return None
        key = self._versions.covering(Key(tuple(array.shape for array in arrays.values())))
        return dict(self._versions.items()).get(key) if key is not None else None

    def reset(self, arrays: Mapping[str, Array] | None = None) -> None:
        """Let all state be as before the first call: zeros, and empty where it grows.

        States for which there are arrays, by the names of the inputs that they were, hold those.
        """
        for version in self.versions():
            if isinstance(version, Version):
                version.compiled.reset(arrays)

    def submit(self, *arrays: Any, **named: Any) -> Future[Any]:
        """Begin to run in the background, on what a call takes; an error comes with the result.

        The arrays must not change until the result is there.
        """
        return in_background(lambda: self(*arrays, **named), "call")

    @property
    def _takes_tensors(self) -> bool:
        """Whether all inputs are tensors, so that a dictionary cannot be one of them."""
        return all(info.dtype is not None for info in self.inputs)

    def run(self, output_names: Sequence[str] | None, feed: Mapping[str, Any]) -> list[Any]:
        """Run on arrays by name; return the outputs of the given names, or all if None."""
        recent = self._recent
        if recent is not None and recent.takes(feed):
            version, arrays = recent.version, feed
        else:
            arrays = self._checked(feed)
            version = self._version_for(arrays)
        try:
            outputs = version.run(arrays)
        except MemoryError:
            raise _out_of_memory(version) from None
        if arrays is not feed:
            self._remember(version, arrays)
        return outputs if output_names is None else self._wanted(output_names, outputs)

    def _wanted(self, output_names: Sequence[str], outputs: Sequence[Any]) -> list[Any]:
        """The outputs of the given names; a single string is one name."""
        if isinstance(output_names, str):
            output_names = [output_names]
        if not isinstance(output_names, Iterable):
            raise UsageError(
                f"the names of outputs must be a list, got {output_names!r}",
                help="None returns all of them",
            )
        by_name = dict(zip((info.name for info in self.outputs), outputs, strict=True))
        unknown = [name for name in output_names if name not in by_name]
        if unknown:
            raise UsageError(
                f"the model has no output {unknown[0]!r}", help=f"it has {', '.join(by_name)}"
            )
        return [by_name[name] for name in output_names]

    def _remember(self, version: Version | SegmentedVersion, arrays: Mapping[str, Any]) -> None:
        """Remember what a version was run on, so that a call with the like skips the checks."""
        if any(type(array) is not np.ndarray for array in arrays.values()):
            return
        names = tuple(sorted(self._versions.value_inputs))
        if any(arrays[name].dtype.hasobject for name in names):  # whose bytes are just addresses
            return
        recent = self._recent
        if recent is None or recent.version is not version or recent.value_inputs != names:
            recent = self._recent = _Recent([*self._dtypes.items()], names, version)
        recent.add(arrays)

    @cached_property
    def _dtypes(self) -> dict[str, Any]:
        """NumPy's element type of each input; None for what is no tensor."""
        return {info.name: info.dtype and info.dtype.numpy for info in self.inputs}

    def feed(self, arrays: Sequence[Any], named: Mapping[str, Any]) -> dict[str, Any]:
        """What a call gives by position and by name, checked, as arrays by the names of inputs."""
        return self._checked(self._feed(arrays, named))

    def _checked(self, feed: Mapping[str, Any]) -> dict[str, Any]:
        names = [info.name for info in self.inputs]
        if not isinstance(feed, Mapping):
            raise UsageError(
                f"inputs by name must be a dictionary, got a {type(feed).__name__}",
                help=f"write model.run(None, {{{', '.join(f'{name!r}: …' for name in names)}}})",
            )
        unknown = [name for name in feed if name not in names]
        if unknown:
            raise UsageError(
                f"the model has no input {unknown[0]!r}", help=f"it has {', '.join(names)}"
            )
        missing = [name for name in names if name not in feed]
        if missing:
            listed = ", ".join(str(info) for info in self.inputs)
            raise UsageError(f"input {missing[0]!r} is missing", help=f"the model takes {listed}")
        checked = {info.name: checked_input(info, feed[info.name]) for info in self.inputs}
        for info in self.inputs:
            check_extents(info, getattr(checked[info.name], "shape", ()), self._ranges)
        return checked

    def version_for(self, feed: Mapping[str, Any]) -> Version | SegmentedVersion:
        """The version for such inputs, compiled if there is none yet."""
        return self._version_for(self._checked(feed))

    def __repr__(self) -> str:
        about = [self._specialiser.title(), self._size()]
        inputs, outputs = (", ".join(map(str, infos)) for infos in (self.inputs, self.outputs))
        return f"<CompiledModel {', '.join(filter(None, about))}\n  {inputs} -> {outputs}>"

    def _repr_html_(self) -> str:
        """What notebooks show: inputs, outputs, and the memory of the version that ran last."""
        memory, title = self._last_memory(), self._specialiser.title()
        return model_html(title, self.inputs, self.outputs, memory, self._state())

    def _last_memory(self) -> MemoryReport | None:
        """The memory of the version that ran last; None if nothing is compiled yet."""
        try:
            return self.memory
        except UsageError:
            return None

    def _state(self) -> str:
        """Whether there is one compiled version; if not, what there is instead."""
        versions = len(self.versions())
        if self._last_memory() is None:
            return "nothing compiled yet"
        return "" if versions == 1 else f"{versions} versions"

    def _size(self) -> str:
        """The number of compiled versions, and the memory of the one that ran last."""
        memory, state = self._last_memory(), self._state()
        if memory is None:
            return state
        needed = f"{memory.total_bytes:,} bytes"
        return f"{state}, the last {needed}" if state else needed

    def _version_for(self, arrays: Mapping[str, Any]) -> Version | SegmentedVersion:
        if self._static is not None:
            return self._static
        return self._versions.find(arrays, arrays, self._specialiser.compile_for)


@dataclass(frozen=True)
class _Recent:
    """A version, the element types of its inputs by name, and what it takes for certain.

    That is shapes, and the bytes of those inputs whose values it was compiled for.
    """

    dtypes: list[tuple[str, Any]]
    value_inputs: tuple[str, ...]
    version: Version | SegmentedVersion
    taken: set[tuple[Any, ...]] = field(default_factory=set)

    def add(self, arrays: Mapping[str, Any]) -> None:
        """Remember what the version takes; if it is too much, forget all else."""
        if len(self.taken) >= MOST_RECENT:
            self.taken.clear()
        shapes = [arrays[name].shape for name, _ in self.dtypes]
        self.taken.add((*shapes, *(arrays[name].tobytes() for name in self.value_inputs)))

    def takes(self, feed: Mapping[str, Any]) -> bool:
        """Whether the feed needs no closer look: arrays of just the types that are wanted."""
        is_mapping = type(feed) is dict or isinstance(feed, Mapping)  # the first is faster
        if not is_mapping or len(feed) != len(self.dtypes):
            return False
        found = []
        for name, dtype in self.dtypes:
            array = feed.get(name)
            if type(array) is not np.ndarray or array.dtype != dtype:
                return False
            found.append(array.shape)
        for name in self.value_inputs:
            found.append(feed[name].tobytes())
        return tuple(found) in self.taken


def _as_given(feed: Mapping[str, Any], outputs: list[Any]) -> list[Any]:
    """Outputs as arrays of the library that an input is of."""
    convert = library_of(feed.values())
    if convert is None:
        return outputs
    return [convert(each) if type(each) is np.ndarray else each for each in outputs]


def one_or_all(outputs: Sequence[Any]) -> Any:
    """The only output, or all as a tuple."""
    return outputs[0] if len(outputs) == 1 else tuple(outputs)


def _needed_bytes(version: Version | SegmentedVersion) -> int:
    """What a run of a version takes: arena, scratch, weights, code, inputs and outputs."""
    return version.compiled.memory.total_bytes


def _out_of_memory(version: Version | SegmentedVersion) -> AfterglowError:
    return AfterglowError(
        f"not enough memory for a run, which takes {_needed_bytes(version):,} bytes",
        help="give smaller inputs, or compile with max_arena",
    )


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
