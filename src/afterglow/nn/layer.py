"""What a layer is, and how a network of layers becomes a module."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING, fields
from numbers import Integral
from typing import TypeAlias

import numpy as np

from afterglow.graph import Builder, Function, Module, Value
from afterglow.nn.scope import AnyLayer, LayerError, Scope, describe
from afterglow.support.errors import CompileError, UsageError
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types import Array, DType, TensorType
from afterglow.types.dtype import DTYPES
from afterglow.types.extent import LARGEST_EXTENT, Dim, ranged

Extent: TypeAlias = "int | str | None"
"""A number, or a dimension that is free: its name, or None."""


@dataclass(frozen=True)
class Input:
    """Shape and element type of an input of a network; integers are `"i64"`."""

    shape: Sequence[Extent]
    dtype: DType | str = "f32"


Weights: TypeAlias = "Mapping[str, Array]"
"""Values of parameters by name."""
Inputs: TypeAlias = "Mapping[str, Input | Sequence[Extent]]"
"""The inputs of a network by name; where only a shape is given, they hold f32."""


class Layer:
    """Base of layers, which build their part of a network: subclasses define `build`.

    A layer is a value. Its weights are in the module, under the name of its place.
    """

    def build(self, scope: Scope, x: Value) -> Value:
        """Emit ops that compute the layer of `x`."""
        raise NotImplementedError

    def module(self, inputs: Inputs, *, seed: int = 0, weights: Weights | None = None) -> Module:
        """The network as a module, whose constants are the weights: see `nn.module`."""
        return module(self, inputs, seed=seed, weights=weights)

    def __repr__(self) -> str:
        own = [f for f in fields(self) if f.repr]  # type: ignore[arg-type]  # layers are dataclasses
        texts = [
            repr(getattr(self, f.name)) if f.default is MISSING else f"{f.name}={value!r}"
            for f in own
            if (value := getattr(self, f.name)) != f.default
        ]
        return f"{type(self).__name__}({', '.join(texts)})"


def module(
    network: AnyLayer, inputs: Inputs, *, seed: int = 0, weights: Weights | None = None
) -> Module:
    """A module that computes a network of some inputs, by position, with the result `y`.

    Weights are constants whose names are those that PyTorch gives them. They depend on the seed,
    their name and their shape alone, and are the same on every machine; those of which `weights`
    has a value have that.
    """
    owner = Module("network")
    function = Function("main", owner)
    _check_named("inputs", inputs, "{'x': (None, 3)}, with None for the batch")
    _check_named("weights", weights or {}, "weights={'0.weight': ARRAY}")
    given = [function.input(name, _type(name, spec)) for name, spec in inputs.items()]
    known = {name: np.asarray(value) for name, value in (weights or {}).items()}
    try:
        y = Scope(Builder(function), seed, weights=known).built(network, *given)
    except LayerError:
        raise
    except CompileError as error:
        error.what = f"{describe(network)}: {error.what}"
        raise
    function.output("y", y)
    _check_used(known, owner)
    return owner


def _check_used(weights: Mapping[str, Array], owner: Module) -> None:
    """Refuse values for which there are no parameters; what only PyTorch counts is left out."""
    others = [name for name in weights if name not in owner.constants]
    unknown = [name for name in others if not name.endswith(".num_batches_tracked")]
    if unknown:
        raise UsageError(
            f"the network has no weights named {', '.join(unknown)}",
            help=f"there are {', '.join(owner.constants)}",
        )


def _check_named(argument: str, given: object, example: str) -> None:
    if not isinstance(given, Mapping) or not all(isinstance(name, str) for name in given):
        raise UsageError(
            f"{argument} must be a dictionary with names as keys, got {given!r}",
            help=f"write {example}",
        )


def _type(name: str, spec: Input | Sequence[Extent]) -> TensorType:
    given = spec if isinstance(spec, Input) else Input(spec)
    if isinstance(given.shape, str) or not isinstance(given.shape, Iterable):
        raise UsageError(
            f"the shape of input {name!r} must be a tuple of extents, got {given.shape!r}",
            help="write (None, 3), with None for the batch",
        )
    shape = tuple(_extent(name, axis, extent) for axis, extent in enumerate(given.shape))
    return TensorType(_dtype(name, given.dtype), shape)


def _dtype(name: str, given: DType | str) -> DType:
    if isinstance(given, DType):
        return given
    if given not in DTYPES:
        raise UsageError(
            f"input {name!r} has no element type {given!r}",
            help=f"there are {', '.join(DTYPES)}",
        )
    return DTYPES[given]


def _extent(name: str, axis: int, extent: Extent) -> int:
    """A number as it is; a free dimension, whose name on axis 0 is `batch`, as any extent."""
    if isinstance(extent, Integral) and extent >= 0:
        return extent if isinstance(extent, int) else int(extent)
    if not isinstance(extent, (str, type(None))):
        raise UsageError(
            f"input {name!r} has extent {extent} along axis {axis}",
            help="give a number, a name, or None for a dimension that is free",
        )
    free = extent or ("batch" if axis == 0 else f"{name}_{axis}")
    return ranged(Dim(free, 1, LARGEST_EXTENT))
