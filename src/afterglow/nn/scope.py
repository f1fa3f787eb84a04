"""Where a layer builds its part of a network: it makes parameters there, and emits ops."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import field, replace
from typing import Any, Protocol, TypeAlias, runtime_checkable

import numpy as np

from afterglow.graph import Builder, Constant, Op, Value
from afterglow.nn.init import Initialiser, generator
from afterglow.support.errors import CompileError, UsageError
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types import Array


@runtime_checkable
class Buildable(Protocol):
    """Anything that builds its part of a network of what comes in."""

    @property
    def build(self) -> Callable[..., Value]:
        """Emits ops in a scope that compute the layer of its inputs."""


AnyLayer: TypeAlias = "Buildable | Callable[..., Value]"
"""An object with a method `build(scope, x)`, or a function `(scope, x)`."""


class LayerError(CompileError):
    """A layer cannot be built of what comes in; the message names the layer."""


@dataclass(frozen=True)
class Scope:
    """The place of a layer in a network: `path` names it, as `encoder.0` does."""

    builder: Builder
    seed: int
    path: str = ""
    weights: Mapping[str, Array] = field(default_factory=dict)
    """Values of parameters that are known, by name."""

    def parameter(self, name: str, shape: tuple[int, ...], init: Initialiser) -> Constant:
        """A weight of this layer, with the value that is given for it or its first one."""
        full = self._inside(name)
        given = self.weights.get(full)
        data = init(generator(self.seed, full), shape) if given is None else given
        if data.shape != shape:
            whose = f"the initialiser of {full}" if given is None else f"the value of {full}"
            raise UsageError(f"{whose} has shape {data.shape}, not {shape}")
        return self.builder.constant(np.asarray(data, np.float32), full)

    def emit(self, op: Op, *operands: Value | None) -> Value:
        """Apply an op that has one result."""
        return self.emit_all(op, *operands)[0]

    def emit_all(self, op: Op, *operands: Value | None) -> tuple[Value, ...]:
        """Apply an op that has any number of results."""
        name = self._inside(op.mnemonic)
        return self.builder.emit_all(
            op, *operands, name=name, origins=(self.path,) if self.path else ()
        )

    def layer(self, name: str, layer: AnyLayer, *inputs: Value) -> Value:
        """Build a layer inside of this one; its parameters begin with `name`."""
        inner = replace(self, path=self._inside(name))
        try:
            return inner.built(layer, *inputs)
        except LayerError:
            raise
        except CompileError as error:
            what = f"layer {inner.path}, {describe(layer)}: {error.what}"
            raise LayerError(
                what, where=error.where, excerpt=error.excerpt, help=error.help
            ) from None

    def built(self, layer: AnyLayer, *inputs: Value) -> Value:
        """What a layer makes of its inputs, in this very place."""
        if isinstance(layer, type) or not (isinstance(layer, Buildable) or callable(layer)):
            raise UsageError(
                f"{self.path or 'the network'} is no layer: {layer!r}",
                help="give a layer such as nn.Linear(3, 4), or a function (scope, x)",
            )
        build = layer.build if isinstance(layer, Buildable) else layer
        if not _takes(build, self, *inputs):
            raise UsageError(
                f"{describe(layer)} does not take {len(inputs)} inputs",
                help="give the network as many inputs as it takes",
            )
        y = build(self, *inputs)
        if not isinstance(y, Value):
            raise UsageError(
                f"{describe(layer)} returns {y!r}",
                help="a layer returns a value of the graph, such as that of scope.emit",
            )
        return y

    def expect(self, x: Value, axis: int, extent: int, what: str, fix: str = "") -> None:
        """Refuse an input whose extent along an axis is not that of the layer."""
        has_axis = -x.type.rank <= axis < x.type.rank
        if has_axis and x.type.shape[axis] == extent:
            return
        found = f"{x.type.shape[axis]} along axis {axis}" if has_axis else f"no axis {axis}"
        raise CompileError(f"takes {extent} {what}, but its input {x.type} has {found}", help=fix)

    def expect_rank(self, x: Value, axes: str) -> None:
        """Refuse an input that does not have as many axes as `axes` names."""
        if x.type.rank != len(axes.split(", ")):
            raise CompileError(f"takes an input [{axes}], got {x.type}")

    def axis(self, x: Value, axis: int) -> int:
        """An axis of an input, counted from its first one."""
        if -x.type.rank <= axis < x.type.rank:
            return axis % x.type.rank
        fix = f"axes run from {-x.type.rank} to {x.type.rank - 1}" if x.type.rank else ""
        raise CompileError(f"there is no axis {axis} in its input {x.type}", help=fix)

    def _inside(self, name: str) -> str:
        return f"{self.path}.{name}" if self.path else name


def _takes(build: Callable[..., Any], *arguments: Any) -> bool:
    """Whether a function can be called so."""
    try:
        inspect.signature(build).bind(*arguments)
    except TypeError:
        return False
    except ValueError:  # a function without a known signature
        return True
    return True


def describe(layer: Any) -> str:
    """A layer as messages write it."""
    return getattr(layer, "__name__", None) or repr(layer)
