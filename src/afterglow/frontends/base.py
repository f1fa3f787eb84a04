"""What the compiler asks of a front end: where models come from, and what is in the way of loading.

A front end opens some kind of source: a file, bytes, or an object of another library. What it opens
is a `Source`, which gives the graph IR of its model for each binding of what is dynamic in it.
Nothing outside of a front end's own folder knows which kind of model a source holds.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import Any, Protocol, TypeAlias

from afterglow.graph import Module
from afterglow.runtime import Signature
from afterglow.support.errors import UnsupportedError, UsageError
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types import Array, OutputForm, TensorType

MOST_DECIDING = 64
"""The most integers whose values are bound because shapes depend on them."""

RUN_NUMBER = "\0run number"
"""The name under which a body is given the number of its run: random numbers depend on it."""

BoundaryType: TypeAlias = "TensorType | tuple[TensorType, ...] | None"
"""The type of a boundary value: a tensor's, those of a sequence, None for an empty optional."""

HostRun: TypeAlias = Callable[[Mapping[str, Any]], Mapping[str, Any]]
"""Computes values on the host, by name, from those that are known."""


def wide_name(name: str) -> str:
    """What a boundary value is called in f32, as it was before it was rounded."""
    return f"\0f32 {name}"


@dataclass(frozen=True)
class Partition:
    """A part of a model: the boundary values that it takes besides inputs, and those it computes.

    Without anything wanted it computes the outputs of the model.
    """

    given: Mapping[str, BoundaryType] = field(default_factory=dict)
    wanted: tuple[str, ...] = ()


@dataclass(frozen=True)
class HostNode:
    """A node whose results have data-dependent shapes, and the inputs whose values decide them."""

    op: str
    name: str
    results: tuple[str, ...]
    inputs: tuple[str, ...]
    computed: tuple[str, ...] = ()
    """What the host computes in the place of each result; empty names for nothing."""
    waits: bool = False
    """Whether it can be expanded once a few integers that it takes are known."""
    reason: str = "the shapes of its results depend on data"

    def __str__(self) -> str:
        return f"{self.op} ({self.name})"


@dataclass(frozen=True)
class Progress:
    """How far a model can be loaded: the values computed by then, and the nodes where it ends.

    With the name of each value: whether it is a float narrower than f32.
    """

    values: Mapping[str, bool]
    nodes: tuple[HostNode, ...]


@dataclass(frozen=True)
class Boundary:
    """Where a model is partitioned because shapes depend on data.

    `values` can be computed before it and are read behind it; narrow floats are among them twice,
    rounded for the host and unrounded for what follows. `host` names what the host computes before
    the shapes behind it are known, `twins` further results that equal one of these.
    """

    nodes: tuple[HostNode, ...]
    values: tuple[str, ...]
    host: tuple[str, ...]
    twins: Mapping[str, str]


@dataclass(frozen=True)
class KeptState:
    """An input that a model keeps itself, and the output that it is in the next run."""

    input: str
    output: str
    initial: Callable[[], Array]
    """What it is in the first run."""


@dataclass(frozen=True)
class HostLimits:
    """What the host allows: indices out of range (it takes the nearest), and bytes of a tensor.

    Without `max_memory` the bytes follow from the sizes of the model.
    """

    unchecked: bool = False
    max_memory: int | None = None


@dataclass(frozen=True)
class Remainder:
    """What of a model lies behind its boundaries, as a file holds it: a graph and its weights."""

    graph: bytes | memoryview
    weights: bytes | memoryview


@dataclass(frozen=True)
class Traced:
    """A model of another library that a front end traces, with inputs as an example.

    `dynamic_shapes` says which of their extents are dynamic, as that library takes it.
    """

    model: Any
    inputs: Any
    dynamic_shapes: Any = None


class UnboundDimensionsError(UsageError):
    """Inputs have dynamic dimensions, which must be bound before the model can be loaded.

    `inputs` are the inputs concerned, `dims` the names of those dimensions that have one.
    """

    def __init__(self, what: str, help: str, inputs: Sequence[str], dims: Sequence[str]) -> None:
        super().__init__(what, help=help)
        self.inputs = tuple(inputs)
        self.dims = tuple(dims)


class NeedsValuesError(UnsupportedError):
    """Shapes depend on the values of some inputs, which must be bound to load the model.

    `boundary` is where the model can be partitioned instead, if it can be; `progress` is what that
    follows from.
    """

    def __init__(
        self,
        inputs: tuple[str, ...],
        boundary: Boundary | None = None,
        progress: Progress | None = None,
    ) -> None:
        names = ", ".join(map(repr, inputs))
        some = f"inputs {names}" if len(inputs) > 1 else f"input {names}"
        if inputs:
            what = f"shapes in the model depend on the value of {some}"
            help = (
                "bind it when compiling: values={name: array}, or a list of arrays for a sequence"
            )
        else:
            what = "shapes in the model depend on what its loops compute"
            help = "compile it with afterglow.compile and run it: such loops run on the host"
        super().__init__(what, help=help)
        self.inputs = inputs
        self.boundary = boundary
        self.progress = progress


class Bindings(Protocol):
    """What is known of a model's inputs when it is loaded: the options of a compilation are such.

    `shapes` gives the whole shape of an input, `dims` the extent of a named dimension, `values` the
    value of an input, which then is a constant.
    """

    @property
    def shapes(self) -> Mapping[str, Sequence[int]]:
        """Shapes of inputs by name."""

    @property
    def dims(self) -> Mapping[str, int]:
        """Extents of dynamic dimensions by name."""

    @property
    def values(self) -> Mapping[str, Array]:
        """Values of inputs by name."""

    @property
    def partition(self) -> Partition | None:
        """The part of the model to load; None for all of it."""

    @property
    def max_memory(self) -> int | None:
        """Bytes that a tensor may take; None if that follows from the model's sizes."""

    @property
    def unchecked(self) -> bool:
        """Whether an index out of range is taken for the nearest in range."""

    @property
    def data_lengths(self) -> bool:
        """Whether lengths that only data tell may be dimensions in the bodies of loops."""


class FileDigests(Protocol):
    """Digests of files, remembered while the files stay as they are."""

    def note_files(self, path: Path, names: Sequence[str]) -> str:
        """The digest of a model's file with those beside it, whose names are remembered."""


class Source(Protocol):
    """A model that can be loaded, again for other bindings."""

    @property
    def path(self) -> Path | None:
        """The model's file; None if it is in memory."""

    def load(self, bindings: Bindings) -> tuple[Module, tuple[OutputForm, ...]]:
        """A fresh module that the caller may rewrite, and how its outputs are grouped.

        Raises `UnboundDimensionsError` and `NeedsValuesError` if the bindings do not suffice.
        """

    @property
    def output_names(self) -> list[str]:
        """The names of the outputs."""

    def on_host(
        self,
        wanted: Sequence[str],
        given: Iterable[str],
        values: Mapping[str, Any],
        run_body: RunBody,
        limits: HostLimits,
    ) -> HostRun:
        """What computes some values of others on the host, by the definition of each node."""

    @property
    def graph(self) -> Module:
        """The whole model as graph IR of host nodes, which is not to be changed."""

    @property
    def state(self) -> tuple[KeptState, ...]:
        """The inputs that the model keeps from run to run."""

    def files(self) -> list[Path]:
        """The files that the model is in; none if it is in memory."""

    @property
    def attachments(self) -> Mapping[str, bytes]:
        """What travels with the compiled model, by name, such as a tokenizer; mostly nothing."""

    def signature(self, bindings: Bindings) -> Signature:
        """The inputs and outputs of the model, as far as the bindings determine them."""

    def digest(self, files: FileDigests) -> str | None:
        """A digest of everything that the model is; None if it would take too long."""

    def body_source(self, body: Any, given: Collection[str]) -> Source | None:
        """A `Body` as a model that computes what is not given; None if there is nothing to do."""


class Body(Protocol):
    """The body of an If, Loop or Scan that the host drives."""

    @property
    def key(self) -> str:
        """Equal for bodies that do the same, as long as the arrays in them live."""

    @property
    def fixed(self) -> Mapping[str, Array]:
        """The outer values, by name, that are always the same."""

    @property
    def is_repeated(self) -> bool:
        """Whether one run does so much that it is worth compiling for."""

    @property
    def output_names(self) -> list[str]:
        """What it returns; a name may occur twice, or be that of an input."""


RunBody: TypeAlias = Callable[[Any, Mapping[str, Any]], Sequence[Any]]
"""Runs a `Body` on what it takes and captures, by name, and returns its results in order."""


class FrontEnd(Protocol):
    """Something that opens one kind of source."""

    @property
    def name(self) -> str:
        """What it is called, which is the name of its dialect, too."""

    @property
    def dialect(self) -> Any:
        """The `Dialect` of its models, loaded when it is asked for; None if they have none."""

    @property
    def reads(self) -> str:
        """The files that it opens, for people: `ONNX`; an empty text if it opens none."""

    def opens(self, source: Any) -> Source | None:
        """The model that `source` is; None if it is of another kind.

        Paths and bytes come as `Content`: a look at what it begins with must do to tell.
        """
