"""Options that most commands share: the model, its bindings, and how to compile it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import field, replace
from functools import wraps
from pathlib import Path
from typing import Any, Protocol, TypeVar

import click

from afterglow.cli.parameters import Dim, ImageSize, Kept, Number, Numbers, Shape, Size, Value
from afterglow.cli.placement import PLACEMENT_OPTIONS, placed_by
from afterglow.cli.progress import StageClock
from afterglow.cli.session import Session, general_options
from afterglow.driver.dims import DimExtents, DimOptions
from afterglow.driver.environment import (
    cache_folder,
    max_memory_by_default,
    perf_map_by_default,
    verify_by_default,
)
from afterglow.driver.images import ImageOptions, ImageSamples
from afterglow.driver.options import CACHE_TYPES, GOALS, PRECISIONS, Options, Progress, policy_of
from afterglow.driver.profiled import open_profiled
from afterglow.driver.rounding import rounding_by, watching_samples, with_changes
from afterglow.driver.sources import Source
from afterglow.driver.state import import_with_state, one_program
from afterglow.frontends.base import NeedsValuesError, UnboundDimensionsError
from afterglow.graph import Module
from afterglow.passes import Instrument
from afterglow.quantization.config import ACTIVATION_TYPES, QuantizationConfig
from afterglow.quantization.profile import Profile
from afterglow.quantization.scheme import Method, Scheme
from afterglow.runtime import TensorInfo
from afterglow.runtime.load import is_saved_model
from afterglow.runtime.logical_device import LogicalDevice
from afterglow.support.errors import UsageError
from afterglow.support.lazy_dataclass import dataclass
from afterglow.support.own_ops import declare_ops
from afterglow.types import OutputForm
from afterglow.types.extent import is_ranged

Named = TypeVar("Named")


class Declared(Protocol):
    """An input or output as a model declares it."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def shape(self) -> tuple[int | str | None, ...] | None:
        """Extents; a name or None for a dynamic one, None for all if the rank is unknown."""


@dataclass(frozen=True)
class Request:
    """A model file and the options that the command line gives for it."""

    path: str
    options: Options
    dim_options: DimOptions = field(default_factory=DimOptions)
    """Lists and ranges of extents that `--dim` gives."""
    images: ImageOptions = field(default_factory=ImageOptions)
    """How images in samples become arrays."""

    @property
    def is_saved(self) -> bool:
        """Whether the file is an already compiled model."""
        return is_saved_model(self.path)

    def source(self) -> Source:
        """Read the file."""
        self.refuse_saved()
        return open_profiled(self.path, self.options)

    def inputs(self, source: Source) -> tuple[TensorInfo, ...]:
        """The inputs as the file declares them, except those bound to values."""
        return source.signature(replace(self.options, shapes={}, dims={})).inputs

    def refuse_saved(self) -> None:
        """Raise if the file is an already compiled model."""
        if not self.path:
            raise UsageError("the name of the model's file is empty")
        if self.is_saved:
            raise UsageError(
                f"{self.path} is a compiled model: it contains code, not a graph",
                help="give the original model; run, bench and profile accept compiled ones",
            )

    def bindings(self) -> list[Request]:
        """A request for each combination of the listed extents; just one if there are no lists."""
        rest = DimOptions(ranges=self.dim_options.ranges)
        bound = (replace(self.options, dims=dims) for dims in self.dim_options.bindings())
        return [Request(self.path, options, rest) for options in bound]

    def keeping(self, state: tuple[tuple[str, str], ...]) -> Request:
        """The same request, with inputs that are kept as state."""
        kept = _once("--state", state)
        if kept and self.dim_options.ahead:
            raise one_program({})
        return replace(self, options=with_changes(self.options, state=kept))

    def watched(self, progress: Progress, *instruments: Instrument) -> Request:
        """The same request, with a progress callback and instruments for passes."""
        options = with_changes(self.options, progress=progress, instruments=instruments)
        if isinstance(progress, StageClock):
            options = watching_samples(options, progress.sample)
        return replace(self, options=options)

    def load(self, source: Source) -> Module:
        """Import the model; errors about missing bindings name the options of the command line."""
        return self.load_with_forms(source)[0]

    def load_with_forms(self, source: Source) -> tuple[Module, tuple[OutputForm, ...]]:
        """As `load`, and how the outputs are grouped."""
        if self.options.progress is not None:
            self.options.progress("import")
        with command_line_help(source, self.options):
            return import_with_state(source, self.options)


@contextmanager
def command_line_help(source: Source, options: Options) -> Iterator[None]:
    """Make errors about missing bindings name `--dim` instead of Python's `dims=`."""
    try:
        yield
    except UnboundDimensionsError as error:
        error.help = how_to_bind(source.signature(options).inputs)
        raise
    except NeedsValuesError as error:
        given = " ".join(f"--value {name}=FILE.npy" for name in error.inputs)
        if given:
            error.help = f"give them: {given}; afterglow run takes them from --input"
        else:
            error.help = "afterglow run partitions it: the host runs what data decide the shapes of"
        raise


def how_to_bind(inputs: Sequence[Declared]) -> str:
    """The options that would bind every dynamic dimension."""
    free = [info for info in inputs if is_free(info)]
    names = dict.fromkeys(e for i in free for e in i.shape or () if isinstance(e, str))
    by_name = " ".join(f"--dim {name}=1" for name in names)
    by_shape = " ".join(f"--shapes {info.name}:{_example(info)}" for info in free)
    if any(info.shape is None or None in info.shape for info in free):
        return f"bind them, for example {by_shape}"
    bounded = any(is_ranged(e) for info in free for e in info.shape or ())
    return f"bind them, for example {by_name}" + ("" if bounded else f" or {by_shape}")


def is_free(info: Declared) -> bool:
    """Whether the shape has dynamic dimensions."""
    return info.shape is None or not all(isinstance(extent, int) for extent in info.shape)


def _example(info: Declared) -> str:
    if info.shape is None:
        return "..."
    return "x".join(str(extent) if isinstance(extent, int) else "1" for extent in info.shape)


_OPTIONS: tuple[Callable[[Any], Any], ...] = (
    click.argument("model"),
    click.option(
        "--ops",
        type=click.Path(dir_okay=False),
        multiple=True,
        is_eager=True,
        expose_value=False,
        callback=lambda context, parameter, paths: declare_ops(paths),
        help="A Python file that declares ops of your own.",
    ),
    click.option("--shapes", type=Shape(), multiple=True, help="The shape of an input."),
    click.option("--dim", "dims", type=Dim(), multiple=True, help="The extents of a dimension."),
    click.option(
        "--value", "values", type=Value(), multiple=True, help="Bind an input to a constant."
    ),
    *PLACEMENT_OPTIONS,
    click.option(
        "--target", default="host", show_default=True, help="The machine to generate code for."
    ),
    click.option(
        "--threads",
        type=click.IntRange(1),
        help="Number of threads; by default all cores, for bench and profile one.",
    ),
    click.option("--no-cache", is_flag=True, help="Do not read or write the cache."),
    click.option("--max-arena", type=Size(), help="Split nodes until the arena fits."),
    click.option(
        "--max-memory", type=Size(), help="Reject tensors and runs that need more memory."
    ),
    click.option("--exact", is_flag=True, help="Use no algorithms that round more."),
    click.option(
        "--unchecked", is_flag=True, help="Clamp indices that are out of range, without an error."
    ),
    click.option(
        "--optimize-for",
        type=click.Choice(GOALS),
        default=GOALS[0],
        show_default=True,
        help="Packed weights take at most 1.5 times what they take in the model; speed: any "
        "memory; memory: no more than in the model.",
    ),
    click.option(
        "--precision",
        type=click.Choice(tuple(PRECISIONS)),
        default="float32",
        show_default=True,
        help="float16, bfloat16: compute with floats of 16 bits where range and precision allow; "
        "weights_…: store the weights of memory-bound layers in 16 bits; int8: compute in integers "
        "that --profile chooses.",
    ),
    click.option(
        "--profile",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        help="What afterglow quantize observed, for --precision int8.",
    ),
    click.option(
        "--calibration",
        type=click.Choice([method.value for method in Method]),
        help="How --profile chooses ranges.  [default: mse]",
    ),
    click.option(
        "--scheme",
        type=click.Choice([scheme.value for scheme in Scheme]),
        help="How integers stand for a range.  [default: asymmetric]",
    ),
    click.option(
        "--keep-float",
        multiple=True,
        metavar="NODE",
        help="A layer that stays in floats, or a pattern; for 16-bit floats, one that stays in "
        "float32: a node or an op.",
    ),
    click.option(
        "--allow-op",
        multiple=True,
        metavar="OP",
        help="An op that computes in 16-bit floats although it does not by default.",
    ),
    click.option(
        "--round-weights",
        metavar="FOLDER|FILE",
        help="Samples, as for quantize --data, by which weights are rounded to integers.",
    ),
    click.option("--size", type=ImageSize(), help="Height and width of images in samples."),
    click.option("--mean", type=Numbers(), help="Subtracted from pixels, which are from 0 to 1."),
    click.option("--std", type=Numbers(), help="What pixels are divided by then."),
    click.option(
        "--activations",
        type=click.Choice(tuple(ACTIVATION_TYPES)),
        help="What activations are stored as, for --precision int8.  [default: uint8]",
    ),
    click.option(
        "--cache-type",
        type=click.Choice(tuple(CACHE_TYPES)),
        default="float32",
        show_default=True,
        help="What a language model keeps its keys and values in.",
    ),
    click.option(
        "--int16",
        multiple=True,
        metavar="NODE",
        help="A layer that reads activations of 16 bits, or a pattern.",
    ),
    click.option(
        "--integer-only",
        is_flag=True,
        help="Compute no floats between quantized values, for --precision int8.",
    ),
    click.option(
        "--quantized-io",
        is_flag=True,
        help="Take and give integers, for --precision int8; the header of a bundle says what they "
        "stand for.",
    ),
    click.option(
        "--tune", type=Number("SECONDS"), help="Measure candidate algorithms, for this time."
    ),
    click.option("--no-optimize", is_flag=True, help="Disable all optimisations."),
    click.option("--verify-each", is_flag=True, help="Verify the program after each pass."),
    general_options,
)


def takes_model(command: Callable[..., int]) -> Callable[..., int]:
    """Decorator that adds these options to a command and passes it a session and a request."""

    @wraps(command)
    def collected(
        model: str,
        shapes: tuple[tuple[str, tuple[int, ...]], ...],
        dims: tuple[tuple[str, DimExtents], ...],
        values: tuple[tuple[str, Any], ...],
        backend: Any,
        target: str,
        threads: int | None,
        devices: tuple[LogicalDevice, ...],
        place: tuple[tuple[str, str], ...],
        objective: str | None,
        split_batch: bool,
        no_cache: bool,
        max_arena: int | None,
        max_memory: int | None,
        exact: bool,
        unchecked: bool,
        optimize_for: str,
        precision: str,
        profile: Path | None,
        calibration: str | None,
        scheme: str | None,
        keep_float: tuple[str, ...],
        round_weights: str | None,
        size: tuple[int, int] | None,
        mean: tuple[float, ...] | None,
        std: tuple[float, ...] | None,
        allow_op: tuple[str, ...],
        activations: str | None,
        cache_type: str,
        int16: tuple[str, ...],
        integer_only: bool,
        quantized_io: bool,
        tune: float | None,
        no_optimize: bool,
        verify_each: bool,
        **others: Any,
    ) -> int:
        dim_options = DimOptions.of(_once("--dim", dims))
        floats = PRECISIONS[precision].floats is not None
        options = Options(
            **placed_by(backend, target, threads, devices, place, objective, split_batch),
            cache=cache_folder(not no_cache),
            shapes=_once("--shapes", shapes),
            dims=dim_options.bound,
            values=_once("--value", values),
            max_arena=max_arena,
            max_memory=max_memory_by_default() if max_memory is None else max_memory,
            policy=policy_of(exact, optimize_for, unchecked),
            precision=precision,
            profile=None if profile is None else Profile.load(profile),
            quantization=_config(
                method=calibration,
                scheme=scheme,
                keep=() if floats else keep_float,
                activations=activations,
                int16=int16,
                integer_only=integer_only,
                quantized_io=quantized_io,
            ),
            keep=keep_float if floats else (),
            allow=allow_op,
            cache_type=cache_type,
            tune=tune,
            optimize=not no_optimize,
            verify=verify_each or verify_by_default(),
            perf_map=perf_map_by_default(),
        )
        images = ImageOptions(size, mean or (0.0,), std or (1.0,))
        samples = _rounding_samples(round_weights, images, others)
        options = rounding_by(samples, model, options, dim_options)
        session = click.get_current_context().find_object(Session)
        return command(session, Request(model, options, dim_options, images), **others)

    decorated: Callable[..., int] = collected
    for option in reversed(_OPTIONS):
        decorated = option(decorated)
    return decorated


def _rounding_samples(
    path: str | None, images: ImageOptions, others: Mapping[str, Any]
) -> ImageSamples | None:
    """The samples that weights are rounded by; raises if options for images have no effect."""
    if path is not None:
        if not path:
            raise UsageError(
                "the path of the samples is empty", help="write --round-weights FOLDER"
            )
        return ImageSamples(path, images.size, images.mean, images.std)
    if images != ImageOptions() and "data" not in others:
        raise UsageError(
            "--size, --mean and --std are for images of samples",
            help="write --round-weights FOLDER, too",
        )
    return None


def _config(**given: Any) -> QuantizationConfig | None:
    """How integers are chosen, as far as it is said; None if nothing is."""
    said = {name: value for name, value in given.items() if value}
    return QuantizationConfig(**said) if said else None


def takes_state(command: Callable[..., int]) -> Callable[..., int]:
    """Decorator that adds the option `--state`, which becomes part of the request."""

    @wraps(command)
    def collected(
        session: Session, request: Request, state: tuple[tuple[str, str], ...], **others: Any
    ) -> int:
        return command(session, request.keeping(state), **others)

    text = "Keep an input between runs: an output of the run before."
    return click.option("--state", type=Kept(), multiple=True, help=text)(collected)


def _once(option: str, pairs: tuple[tuple[str, Named], ...]) -> dict[str, Named]:
    found: dict[str, Named] = {}
    for name, value in pairs:
        if name in found:
            raise UsageError(f"{option} is given twice for {name!r}")
        found[name] = value
    return found
