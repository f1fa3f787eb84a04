"""Options of a compilation: a frozen value, passed in."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from afterglow.backends.policy import DEFAULT, Policy
from afterglow.runtime.device import LoadOptions
from afterglow.runtime.logical_device import LogicalDevice
from afterglow.runtime.threads import checked_streams, checked_threads, threads_of_stream
from afterglow.support.errors import UsageError
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types import Array, DType
from afterglow.types.dtype import bf16, f8e4m3fn, f16, f32, i8, u4

if TYPE_CHECKING:  # options are read where the compiler is not imported
    from afterglow.driver.rounding import RoundingSamples
    from afterglow.frontends.base import Partition
    from afterglow.partition.config import PartitionConfig
    from afterglow.passes import Instrument
    from afterglow.quantization.config import QuantizationConfig
    from afterglow.quantization.profile import Profile


@dataclass(frozen=True)
class Precision:
    """What is stored in fewer bits than the model has."""

    weights: DType | None = None
    """The storage type of f32 weights: of 16-bit floats where reading them dominates; of integers
    and floats of 8 bits in all products and embeddings."""
    by_row: bool = False
    """Whether products read rows that are quantized as they come."""
    by_profile: bool = False
    """Whether activations and weights become integers that a profile chooses."""
    floats: DType | None = None
    """The 16-bit type in which activations and weights are where they may be."""

    @property
    def has_integers(self) -> bool:
        """Whether weights become integers."""
        return self.by_row or self.by_profile or self.weights in (i8, u4)

    @property
    def has_scales(self) -> bool:
        """Whether weights become numbers of few bits with scales."""
        return self.has_integers or self.weights is f8e4m3fn


GOALS = ("balance", "speed", "memory")
"""What the algorithms of kernels are chosen for; the first is the default."""

ACTIVATIONS = ("float32", "int8")
"""What products with matrices stored in blocks may multiply."""
CACHE_TYPES = {"float32": f32, "float16": f16, "int8": i8}
"""What language models may keep their keys and values in."""

PRECISIONS = {
    "float32": Precision(),
    "weights_bf16": Precision(weights=bf16),
    "weights_f16": Precision(weights=f16),
    "weights_int8": Precision(weights=i8),
    "weights_int4": Precision(weights=u4),
    "weights_f8": Precision(weights=f8e4m3fn),
    "dynamic_int8": Precision(by_row=True),
    "float16": Precision(floats=f16),
    "bfloat16": Precision(floats=bf16),
    "int8": Precision(by_profile=True),
}

Progress: TypeAlias = Callable[[str], None]
"""Called with the name of each stage as it begins."""
OnSample: TypeAlias = Callable[[int, int | None], None]
"""Called after each sample with their number so far, and that of all if it is known."""


@dataclass(frozen=True)
class Options:
    """How to compile a model."""

    backend: str = "cpu"
    target: str = "host"
    threads: int | None = None
    """Threads of a run; None for all cores, or for those of a stream."""
    streams: int = 1
    """Runs at the same time that each have cores of their own."""
    devices: tuple[LogicalDevice, ...] = ()
    """What a model is partitioned over; nothing if one backend compiles all of it."""
    placing: PartitionConfig | None = None
    """How it is partitioned; None for the defaults."""
    shapes: Mapping[str, Sequence[int]] = field(default_factory=dict)
    dims: Mapping[str, int] = field(default_factory=dict)
    values: Mapping[str, Array] = field(default_factory=dict)
    partition: Partition | None = None
    """The part of the model to compile; None for all of it."""
    state: Mapping[str, str] = field(default_factory=dict)
    """Inputs that are kept between runs: each with the output that it has in the next one."""
    optimize: bool = True
    donate_inputs: bool = False
    """Whether inputs may be overwritten once they have been read."""
    max_arena: int | None = None
    """The most bytes that the arena may have: nodes are split until it fits."""
    checkpoint: int | str | tuple[str, ...] | None = None
    """What a training step keeps for its backward pass, where it computes the rest again."""
    max_memory: int | None = None
    """The most bytes that a tensor, and a run, may take; None for what `docs/memory.md` says."""
    policy: Policy = DEFAULT
    """User constraints on the choice of algorithms."""
    precision: str = "float32"
    """A key of `PRECISIONS`."""
    profile: Profile | None = None
    """What was observed of a model that becomes one of integers."""
    quantization: QuantizationConfig | None = None
    """How integers are chosen; None for the defaults."""
    rounding: RoundingSamples | None = None
    """What weights are rounded by; None: to the nearest integers."""
    keep: tuple[str, ...] = ()
    """Nodes and ops that stay in f32, by name or pattern, where others become narrower."""
    allow: tuple[str, ...] = ()
    """Ops that compute in 16-bit floats although they do not by default."""
    activations: str | None = None
    """What products with matrices stored in blocks multiply; None for what the model says."""
    cache_type: str = "float32"
    """What a language model keeps its keys and values in: a key of `CACHE_TYPES`."""
    tune: float | None = None
    """Seconds for which candidate kernels are measured; None to go by estimates."""
    cache: Path | None = None
    """The folder of the cache on disk; None for none."""
    verify: bool = False
    perf_map: bool = False
    """Whether the profiler `perf` is told the names of functions."""
    instruments: tuple[Instrument, ...] = ()
    progress: Progress | None = None
    data_lengths: bool = True
    """Whether lengths that only data tell may be dimensions in the bodies of loops."""

    def __post_init__(self) -> None:
        streams = checked_streams(self.streams)
        threads = threads_of_stream(checked_threads(self.threads), streams)
        object.__setattr__(self, "streams", streams)
        object.__setattr__(self, "threads", threads)

    @property
    def loading(self) -> LoadOptions:
        """How what is compiled is loaded."""
        return LoadOptions(self.threads, self.perf_map, self.streams)

    @property
    def in_floats(self) -> Options:
        """The same, for the model in floats on one backend, which is observed."""
        floats = replace(self, precision="float32", profile=None, quantization=None, rounding=None)
        return replace(floats, devices=(), placing=None)

    @property
    def for_costs(self) -> Options:
        """The same, for programs that are planned only to tell what they cost."""
        return replace(self, progress=None, instruments=(), tune=None)

    @property
    def where(self) -> str:
        """The backend, or the devices, by name."""
        return ", ".join(device.name for device in self.devices) or self.backend

    def on(self, device: LogicalDevice) -> Options:
        """The same, for what one of the devices computes."""
        threads = self.threads if device.threads is None else device.threads
        return replace(
            self,
            backend=device.backend,
            target=device.target,
            threads=threads,
            devices=(),
            placing=None,
            donate_inputs=False,  # other parts may read them, too
        )

    @property
    def unchecked(self) -> bool:
        """Whether an index out of range is taken for the nearest in range."""
        return self.policy.unchecked


def is_duration(seconds: Any) -> bool:
    """Whether something is a finite number of seconds above 0."""
    return isinstance(seconds, (int, float)) and 0 < seconds < math.inf


def check_bindings(
    shapes: Any = None,
    dims: Any = None,
    values: Any = None,
    *,
    state: Any = None,
    backend: Any = "cpu",
    target: Any = "host",
) -> None:
    """Refuse arguments of the wrong kind: bindings that are not by name, a target without one."""
    named = {"shapes": shapes, "dims": dims, "values": values, "state": state}
    for argument, given in named.items():
        is_mapping = isinstance(given, Mapping) and all(isinstance(name, str) for name in given)
        if given is not None and not is_mapping:
            raise UsageError(
                f"{argument} must be a dictionary with names as keys, got {given!r}",
                help=f"write {argument}={{'NAME': {_EXAMPLES[argument]}}}",
            )
    for name, shape in (shapes or {}).items():
        if isinstance(shape, str) or not isinstance(shape, Iterable):
            raise UsageError(
                f"the shape of input {name!r} cannot be {shape!r}",
                help=f"write shapes={{{name!r}: {_EXAMPLES['shapes']}}}",
            )
    for argument, given, example in (("backend", backend, "cpu"), ("target", target, "host")):
        if not isinstance(given, str):
            raise UsageError(
                f"{argument} must be a name, got {given!r}", help=f"write {argument}={example!r}"
            )


def name_list(argument: str, given: Any) -> tuple[str, ...]:
    """Names that an argument lists; raise if it is one text, which would be a list of letters."""
    if isinstance(given, str):
        raise UsageError(
            f"{argument} must be a list of names, got {given!r}",
            help=f"write {argument}=[{given!r}]",
        )
    return tuple(given)


def checkpoint_of(given: Any, argument: str = "checkpoint") -> int | str | tuple[str, ...] | None:
    """What an argument asks to keep of a forward pass; raise if it is nothing of the kind."""
    if given is None or isinstance(given, str):
        return given
    if isinstance(given, int) and given > 0:
        return int(given)
    if isinstance(given, Sequence) and given and all(isinstance(name, str) for name in given):
        return tuple(given)
    raise UsageError(
        f"{argument} must be a number of segments or names of nodes, got {given!r}",
        help=f'write {argument}="auto" for the least memory',
    )


_EXAMPLES = {"shapes": "(1, 3, 224, 224)", "dims": "8", "values": "array", "state": "'OUTPUT'"}
"""An example for each argument, for help texts."""


def model_title(source: Any, options: Options) -> str:
    """The file of a model, if it has one, and what it is compiled for."""
    name = f"{Path(source).name}, " if isinstance(source, (str, Path)) else ""
    if options.devices:
        return f"{name}on {options.where}"
    return f"{name}backend {options.backend}, target {options.target}"


def cache_type_of(given: Any) -> str:
    """What an argument asks to keep keys and values in; raise if it is nothing of the kind."""
    if not isinstance(given, str) or given not in CACHE_TYPES:
        raise UsageError(f"no cache type {given!r}", help=f"there are {', '.join(CACHE_TYPES)}")
    return given


def policy_of(exact: bool, optimize_for: str, unchecked: bool = False) -> Policy:
    """User constraints on the choice of algorithms, from the arguments of `compile`."""
    if optimize_for not in GOALS:
        raise UsageError(
            f"a model cannot be optimised for {optimize_for!r}",
            help=f"use {', '.join(map(repr, GOALS[:-1]))} or {GOALS[-1]!r}",
        )
    return Policy(
        exact=exact,
        small_weights=optimize_for == "memory",
        most_weights=None if optimize_for == "speed" else DEFAULT.most_weights,
        unchecked=unchecked,
    )
