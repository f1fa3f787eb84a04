"""Weights as state: which constants of a module train, and how their values are kept."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from afterglow.graph import Builder, Constant, Function, Module, Value
from afterglow.graph.value import Placeholder
from afterglow.ops.elementwise import Div, Mul
from afterglow.ops.movement import Transpose
from afterglow.support.errors import UsageError
from afterglow.support.lazy_dataclass import dataclass
from afterglow.support.patterns import fits
from afterglow.types import Array, TensorType

LARGE = 1e30
"""Numbers from here on stand for infinity."""


@dataclass(frozen=True)
class Parameter:
    """A constant of a model that is state while the model trains."""

    name: str
    type: TensorType
    """That of the constant."""
    trains: bool = True
    """Whether the optimizer changes it; running statistics change by themselves."""
    axes: tuple[int, ...] | None = None
    """The order of axes in which the state holds it; None for the model's own."""

    @property
    def stored_type(self) -> TensorType:
        """The type of the state."""
        if self.axes is None:
            return self.type
        return self.type.with_shape([self.type.shape[axis] for axis in self.axes])

    def to_state(self, array: Array) -> Array:
        """A value of the constant as the state holds it."""
        return array if self.axes is None else np.ascontiguousarray(array.transpose(self.axes))

    def from_state(self, array: Array) -> Array:
        """The value of the constant that the state holds."""
        return array if self.axes is None else np.ascontiguousarray(array.transpose(self._back))

    @property
    def _back(self) -> tuple[int, ...]:
        assert self.axes is not None
        return tuple(int(axis) for axis in np.argsort(self.axes))

    def declare(self, module: Module) -> Placeholder:
        """Make state of the constant of this name, which must be gone from the module."""
        return module.state(self.name, self.stored_type)

    def read(self, b: Builder, state: Placeholder) -> Value:
        """What the state holds, with the model's own order of axes."""
        return state if self.axes is None else b.emit(Transpose(self._back), state)


def matching(names: Iterable[str], patterns: Sequence[str], what: str) -> list[str]:
    """The names that match one of the patterns; a pattern that matches none is an error."""
    listed = [*names]
    found: dict[str, None] = {}
    for pattern in patterns:
        hits = [name for name in listed if fits(name, pattern)]
        if not hits:
            some = ", ".join(listed[:8]) + (", …" if len(listed) > 8 else "")
            raise UsageError(f"no {what} matches {pattern!r}", help=f"there are {some}")
        found.update(dict.fromkeys(hits))
    return [name for name in listed if name in found]


def weights_of(function: Function) -> list[Constant]:
    """The constants that may train: of floats, with at least one axis, in order of first use.

    Exporters write two sorts of such constants that are no weights: masks, which hold numbers that
    stand for minus infinity, and factors of one element, such as the scale of an attention.
    """
    floats = [
        c for c in function.constants() if c.type.dtype.is_float and c.type.rank and c.type.size
    ]
    return [c for c in floats if not _is_mask(c) and not _is_factor(c)]


def _is_mask(constant: Constant) -> bool:
    return not bool((np.abs(constant.data.astype(np.float64)) < LARGE).all())


def _is_factor(constant: Constant) -> bool:
    arithmetic = all(isinstance(node.op, Mul | Div) for node, _ in constant.uses)
    return constant.type.size == 1 and arithmetic


def to_states(function: Function, parameters: Sequence[Parameter]) -> dict[str, Placeholder]:
    """Replace constants by states of the same names; the states."""
    module = function.module
    first = next(function.nodes, None)
    states = {}
    for parameter in parameters:
        constant = _constant_of(module, parameter)
        module.erase_constant(constant)
        state = parameter.declare(module)
        function.replace(constant, parameter.read(Builder(function, first), state))
        states[parameter.name] = state
    return states


def _constant_of(module: Module, parameter: Parameter) -> Constant:
    """The constant that a parameter stands for, in a model for another batch perhaps."""
    constant = module.constants.get(parameter.name)
    if constant is not None and constant.type == parameter.type:
        return constant
    found = "there is none" if constant is None else f"it is {constant.type}"
    raise UsageError(
        f"weight {parameter.name!r} depends on the size of the batch: "
        f"it was {parameter.type}, and {found} for this one",
        help="learn from batches of one size, the first one's, with drop_last=True; "
        "or import the model with a fixed batch",
    )


def store_as_read(
    function: Function, parameters: Sequence[Parameter], states: dict[str, Placeholder]
) -> list[Parameter]:
    """Let states that are only read transposed hold that, in place; the parameters as they are now.

    A run then has nothing to transpose, and gradients need not be transposed back.
    """
    return [_as_read(function, parameter, states) for parameter in parameters]


def _as_read(function: Function, parameter: Parameter, states: dict[str, Placeholder]) -> Parameter:
    state = states[parameter.name]
    readers = [node for node, _ in state.uses if node.function is function]
    ops = {node.op for node in readers}
    op = next(iter(ops), None)
    escapes = any(value is state for value in function.escaping())
    if len(ops) != 1 or not isinstance(op, Transpose) or escapes or parameter.axes is not None:
        return parameter
    moved = replace(parameter, axes=op.perm)
    module = function.module
    module.erase_state(state)
    new = moved.declare(module)
    for node in readers:
        function.replace(node.result, new)
        function.erase(node)
    states[parameter.name] = new
    return moved


def with_values(module: Module, values: Mapping[str, Array]) -> Module:
    """A copy of a module in which constants have other values, by name."""
    copy = module.clone()
    for name, value in values.items():
        old = copy.constants[name]
        copy.constants[name] = Constant(name, value, old.type)
        for function in copy.functions.values():
            function.replace(old, copy.constants[name])
    return copy
