"""Names of a graph and what they stand for, with those of the graphs around it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, TypeAlias

from afterglow.frontends.definition.context import (
    ComplexParts,
    GrownTensor,
    Imported,
    KnownMap,
    RowList,
    RowMaps,
    StaticSequence,
)
from afterglow.frontends.definition.known import KnownValues
from afterglow.graph import Builder, Constant, Function, Value
from afterglow.ops.movement import Reshape
from afterglow.support.errors import AfterglowError, ModelError
from afterglow.types import Array, TensorType


class BrokenValueError(AfterglowError):
    """A name stands for what could not be imported; that is reported already."""


class _Broken:
    """Stands for the results of a node that could not be imported."""


_BROKEN: Final = _Broken()
_Entry: TypeAlias = "Imported | _Broken | None"


class Scope:
    """The names of one graph, which is imported into `function`.

    `outer` belongs to the graph around it. If that is imported into another function, outer values
    become inputs of this one when they are first read: `captured` has them, in that order.
    """

    def __init__(self, function: Function, known: KnownValues, outer: Scope | None = None) -> None:
        self.function = function
        self.captured: dict[Value, Value] = {}
        self._known = known
        self._outer = outer
        self._entries: dict[str, _Entry] = {"": None}
        self._variables: set[str] = set()
        self._sources: dict[Value, Value] = {}
        self._lists: dict[RowList, RowList] = {}

    def __contains__(self, name: object) -> bool:
        """Whether this graph itself defines the name."""
        return name in self._entries

    def has_constant(self, name: str, array: Array) -> bool:
        """Whether the name stands for these very elements already, as careless tools write it."""
        entry = self._entries.get(name)
        if not isinstance(entry, Constant) or entry.type != TensorType.of(array):
            return False
        return entry.data.tobytes() == array.tobytes()

    def define(self, name: str, value: Imported | None) -> None:
        """Let a name stand for a value; None for an empty optional."""
        if name in self._entries:
            raise ModelError(
                f"the name {name!r} is defined twice",
                help="ONNX has every name once: rename one of the two, or export the model anew",
            )
        self._entries[name] = self._variable(value) if name in self._variables else value

    def vary(self, names: Iterable[str]) -> None:
        """Let names stand for variables: values apart from all others, and none that are known."""
        new = set(names) - self._variables
        self._variables |= new
        for name in [name for name in self._entries if name in new]:
            self._entries[name] = self._variable(self._entries[name])

    def _variable(self, value: _Entry) -> _Entry:
        if not isinstance(value, Value):
            return value
        builder = Builder(self.function, name=value.name, origins=(value.name,))
        variable = builder.emit(Reshape(value.type.shape), value)
        self._sources[variable] = value
        self._known.variables.add(variable)
        return variable

    def source(self, name: str) -> Imported | None:
        """What a name stands for, or stood for before it became a variable."""
        value = self.look_up(name)
        while isinstance(value, Value) and value in self._sources:
            value = self._sources[value]
        return value

    def varies_alone(self, name: str) -> bool:
        """Whether a name stands for what follows from variables that are constants."""
        value = self._entries.get(name)
        return isinstance(value, Value) and self._known.varies_alone(value)

    def names(self) -> list[str]:
        """The names of this graph that stand for something that could be imported."""
        return [name for name, entry in self._entries.items() if not isinstance(entry, _Broken)]

    def is_broken(self, name: str) -> bool:
        """Whether a name of this graph stands for what could not be imported."""
        return isinstance(self._entries.get(name), _Broken)

    def spoil(self, names: Iterable[str]) -> None:
        """Let names stand for what could not be imported."""
        self._entries.update((name, _BROKEN) for name in names if name)

    def look_up(self, name: str) -> Imported | None:
        """What a name stands for, here or in a graph around this one."""
        if name in self._entries:
            entry = self._entries[name]
            if isinstance(entry, _Broken):
                raise BrokenValueError(f"{name!r} could not be imported")
            return entry
        if self._outer is None:
            raise ModelError(f"the name {name!r} is not defined")
        value = self._outer.look_up(name)
        return value if self._outer.function is self.function else self._captured(value)

    def grown_among(self, names: Iterable[str]) -> list[str]:
        """The names that stand for tensors which grew by as much as only data tell."""
        found = [name for name in dict.fromkeys(names) if name and not self.is_broken(name)]
        return [name for name in found if isinstance(self.look_up(name), GrownTensor)]

    def _captured(self, value: Imported | None) -> Imported | None:
        """An outer value, as this function sees it; constants belong to the whole module."""
        if value is None or isinstance(value, (Constant, KnownMap)):
            return value
        if isinstance(value, RowList):
            return self._lists.setdefault(value, RowList(base=value))
        if isinstance(value, GrownTensor):
            base = None if value.base is None else self._captured_tensor(value.base)
            rows, count = map(self._captured_tensor, (value.rows, value.count))
            return GrownTensor(base, value.axis, rows, count, value.bound)
        if isinstance(value, RowMaps):
            return RowMaps(value.keys, self._captured_tensor(value.rows))
        if isinstance(value, ComplexParts):
            return ComplexParts(self._captured_tensor(value.parts))
        if isinstance(value, StaticSequence):
            return StaticSequence(map(self._captured_tensor, value))
        return self._captured_tensor(value)

    def _captured_tensor(self, value: Value) -> Value:
        if isinstance(value, Constant):
            return value
        if value not in self.captured:
            placeholder = self.function.input(value.name, value.type)
            self.captured[value] = placeholder
            self._known.outer[placeholder] = value
        return self.captured[value]
