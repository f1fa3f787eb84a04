"""What a caller knows about the inputs of a model, checked against what the model declares."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import field
from operator import index
from typing import Any

import numpy as np

from afterglow.frontends.base import UnboundDimensionsError
from afterglow.frontends.definition.limits import MOST_BYTES
from afterglow.frontends.definition.model import DeclaredExtent
from afterglow.frontends.definition.signature import Parameter, ParameterKind
from afterglow.support.errors import AfterglowError, UsageError
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types import Array, DType, TensorType
from afterglow.types.extent import is_ranged
from afterglow.types.extent.text import read_extent


@dataclass(frozen=True)
class Binding:
    """What is known about the inputs of a model.

    `shapes` gives the whole shape of an input, `dims` the extent of a named dimension, `values` the
    value of an input, which then is a constant: an array, a list of them for a sequence, for an
    optional either of these or None, and a dictionary for a map.
    """

    shapes: Mapping[str, Sequence[int]] = field(default_factory=dict)
    dims: Mapping[str, int] = field(default_factory=dict)
    values: Mapping[str, Any] = field(default_factory=dict)
    max_memory: int | None = None
    """Bytes that a tensor may take; None if that follows from the model's sizes."""


def _unbound(free: Sequence[Parameter], named: NamedExtents) -> UnboundDimensionsError:
    """The error for inputs with dynamic dimensions that nothing binds."""
    extents = named.extents
    shapes = [(parameter, parameter.shape or ()) for parameter in free]
    names = (e for _, shape in shapes for e in shape if isinstance(e, str) and e not in extents)
    dims = tuple(dict.fromkeys(names))
    by_name = "dims={" + ", ".join(f"{name!r}: 1" for name in dims) + "}"
    by_shape = "shapes={" + ", ".join(_example(parameter, extents) for parameter in free) + "}"
    several = {None, *named.several}
    nameless = any(p.shape is None or several.intersection(p.shape) for p in free)
    bounded = any(is_ranged(extents.get(str(e))) for _, shape in shapes for e in shape)
    ways = [by_shape] if nameless else [by_name] if bounded else [by_name, by_shape]
    return UnboundDimensionsError(
        f"the model has inputs with dynamic dimensions: {', '.join(map(str, free))}",
        f"bind them, for example {' or '.join(ways)}",
        [parameter.name for parameter in free],
        dims,
    )


def _example(parameter: Parameter, extents: Mapping[str, int]) -> str:
    if parameter.shape is None:
        return f"{parameter.name!r}: (…)"
    shape = (
        extents.get(e, 1) if isinstance(e, str) else 1 if e is None else e for e in parameter.shape
    )
    return f"{parameter.name!r}: {tuple(shape)}"


def bind_inputs(
    inputs: Sequence[Parameter], binding: Binding, warn: Callable[[str], None]
) -> dict[str, TensorType]:
    """The type of every tensor among the inputs; or one error that lists all that is wrong.

    `warn` is told of names of dimensions that mean several extents.
    """
    binder = _Binder({parameter.name: parameter for parameter in inputs}, binding)
    problems = list(binder.problems())
    if problems:
        what = (
            problems[0] if len(problems) == 1 else f"{len(problems)} bindings do not fit the model"
        )
        raise UsageError(what, excerpt=problems if len(problems) > 1 else ())
    free = [p for p in binder.tensors if p.name not in binder.given and not binder.is_bound(p)]
    if free:
        raise _unbound(free, binder.named)
    types = {p.name: binder.type_of(p) for p in binder.tensors}
    for text in binder.warnings():
        warn(text)
    for name, type in types.items():
        if type.nbytes > MOST_BYTES:
            raise UsageError(
                f"input {name!r} is too large: {type} takes {type.nbytes:,} bytes",
                help=f"give smaller extents: at most {MOST_BYTES:,} bytes are possible",
            )
    return types


class NamedExtents:
    """The extents of named dimensions: `bound` are those that a user gave by name.

    Others follow from shapes of inputs. Models use one name for dimensions of different extents, so
    what shapes say of a name counts only where they all say the same.
    """

    def __init__(self, bound: Mapping[str, int] | None = None) -> None:
        self.bound = dict(bound or {})
        self._seen: dict[str, dict[int, list[str]]] = {}

    def learn(
        self, name: str, declared: Sequence[DeclaredExtent], shape: Sequence[int]
    ) -> Iterator[str]:
        """Note the shape of an input; yields what contradicts the extents given by name."""
        for dimension, extent in zip(declared, shape, strict=False):
            if not isinstance(dimension, str):
                continue
            bound = self.bound.get(dimension, extent)
            if bound != extent:
                yield f"dimension {dimension!r} is {bound}, but {extent} in input {name!r}"
            self._seen.setdefault(dimension, {}).setdefault(extent, []).append(name)

    @property
    def extents(self) -> dict[str, int]:
        """The names that mean one extent, and which."""
        tied = {name: next(iter(seen)) for name, seen in self._seen.items() if len(seen) == 1}
        return {**tied, **self.bound}

    @property
    def several(self) -> dict[str, list[str]]:
        """The names that mean several extents, and for each extent an input that has it."""
        return {
            name: list(dict.fromkeys(inputs[0] for inputs in seen.values()))
            for name, seen in self._seen.items()
            if len(seen) > 1
        }


class _Binder:
    """Finds the extents of named dimensions, and what contradicts the model or itself."""

    def __init__(self, inputs: Mapping[str, Parameter], binding: Binding) -> None:
        self.inputs = inputs
        self.binding = binding
        self.tensors = [p for p in inputs.values() if p.kind is ParameterKind.TENSOR]
        self.named = NamedExtents()
        self.extents: Mapping[str, int] = {}
        self.given: dict[str, tuple[int, ...]] = {}

    def problems(self) -> Iterator[str]:
        """Everything that does not fit, in the order in which it was given."""
        known = {e for p in self.tensors for e in p.shape or () if isinstance(e, str)}
        for name, extent in self.binding.dims.items():
            if name not in known:
                yield f"no input has a dimension {name!r}{_choice(known, 'there are')}"
            elif not _is_extent(extent):
                yield f"dimension {name!r} cannot be {extent!r}"
            else:
                self.named.bound[name] = extent if is_ranged(extent) else index(extent)
        for name, shape in self.binding.shapes.items():
            yield from self._shape_problems(name, shape)
        for name, value in self.binding.values.items():
            yield from self._value_problems(name, value)
        for name, shape in self.given.items():
            yield from self.named.learn(name, self.inputs[name].shape or (), shape)
        self.extents = _with_expressions(known, self.named.extents)

    def _shape_problems(self, name: str, shape: Sequence[int]) -> Iterator[str]:
        if name not in self.inputs:
            yield f"the model has no input {name!r}{_choice(self.inputs, 'it has')}"
        elif not all(map(_is_extent, shape)):
            yield f"input {name!r} cannot have the shape {tuple(shape)!r}"
        elif not _fits(shape, self.inputs[name].shape):
            yield f"input {self.inputs[name]} cannot have the shape {tuple(shape)}"
        else:
            self.given[name] = tuple(e if is_ranged(e) else index(e) for e in shape)

    def _value_problems(self, name: str, value: Any) -> Iterator[str]:
        if name not in self.inputs:
            yield f"the model has no input {name!r}{_choice(self.inputs, 'it has')}"
            return
        parameter = self.inputs[name]
        if parameter.kind is ParameterKind.MAP and not isinstance(value, Mapping):
            yield f"input {parameter} cannot be a {type(value).__name__}"
        if parameter.kind is not ParameterKind.TENSOR:
            return
        array = np.asarray(value)
        if not _holds(array, parameter.dtype):
            yield f"input {parameter} cannot hold {array.dtype}"
        yield from self._shape_problems(name, array.shape)

    def warnings(self) -> Iterator[str]:
        """Which names mean several extents."""
        for dimension, inputs in self.named.several.items():
            several = f"has several extents, in {' and '.join(map(repr, inputs))}"
            yield f"dimension {dimension!r} {several}: each is taken as it is"

    def is_bound(self, parameter: Parameter) -> bool:
        """Whether the extents that are known by now give the whole shape."""
        shape = parameter.shape
        return shape is not None and all(isinstance(e, int) or e in self.extents for e in shape)

    def type_of(self, parameter: Parameter) -> TensorType:
        """The type of an input all of whose extents are known."""
        assert parameter.dtype is not None
        if parameter.name in self.given:
            return TensorType(parameter.dtype, self.given[parameter.name])
        shape = parameter.shape or ()
        return TensorType(parameter.dtype, tuple(self._extent(e) for e in shape))

    def _extent(self, declared: DeclaredExtent) -> int:
        return declared if isinstance(declared, int) else self.extents[str(declared)]


_OPERATORS = frozenset("+-*/%(")


def _with_expressions(names: Iterable[str], extents: Mapping[str, int]) -> dict[str, int]:
    """The extents, and those of names such as `past + 1` that are expressions over them."""
    found = dict(extents)
    for name in sorted(names):
        if name not in extents and not _OPERATORS.isdisjoint(name):
            with suppress(AfterglowError):
                found[name] = read_extent(name, extents)
    return found


def _fits(shape: Sequence[int], declared: Sequence[DeclaredExtent] | None) -> bool:
    if declared is None:
        return True
    pairs = zip(shape, declared, strict=False)
    return len(shape) == len(declared) and all(not isinstance(d, int) or d == e for e, d in pairs)


def _holds(array: Array, dtype: DType | None) -> bool:
    try:
        return DType.of(array.dtype) is dtype
    except TypeError:  # no element type of ours
        return False


def _is_extent(value: Any) -> bool:
    try:
        return index(value) >= 0
    except TypeError:
        return False


def _choice(names: Iterable[str], verb: str) -> str:
    listed = ", ".join(map(repr, sorted(names)))
    return f": {verb} {listed}" if listed else ""
