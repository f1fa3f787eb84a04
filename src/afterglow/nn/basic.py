"""Layers without windows, memory or attention: linear ones, look-ups, activations."""

from __future__ import annotations

import math
from dataclasses import field

from afterglow.graph import Op, Value
from afterglow.nn import init
from afterglow.nn.checks import (
    check_axes,
    check_counts,
    check_initialisers,
    check_shares,
)
from afterglow.nn.init import Initialiser
from afterglow.nn.layer import Layer
from afterglow.nn.scope import Scope
from afterglow.ops import activation as a
from afterglow.ops.elementwise import Add
from afterglow.ops.functions import Tanh as TanhOp
from afterglow.ops.indexing import Gather
from afterglow.ops.linear import MatMul
from afterglow.ops.movement import Reshape
from afterglow.ops.random import Dropout as DropoutOp
from afterglow.ops.softmax import Softmax as SoftmaxOp
from afterglow.support.errors import CompileError, UsageError
from afterglow.support.lazy_dataclass import dataclass


def within(fan: int) -> Initialiser:
    """Uniform within 1 / sqrt(fan): PyTorch's choice for most weights and biases."""
    bound = 1 / math.sqrt(fan) if fan else 0.0
    return init.uniform(-bound, bound)


@dataclass(frozen=True, repr=False)
class Linear(Layer):
    """x weightᵀ + bias along the last axis."""

    in_features: int
    out_features: int
    bias: bool = True
    weight_init: Initialiser | None = field(default=None, kw_only=True, repr=False)
    bias_init: Initialiser | None = field(default=None, kw_only=True, repr=False)

    def __post_init__(self) -> None:
        check_counts(self, "in_features", "out_features")
        check_initialisers(self, "weight_init", "bias_init")

    def build(self, scope: Scope, x: Value) -> Value:
        """A product, and a sum."""
        here = x.type.shape[-1] if x.type.rank else 1
        fix = f"make it Linear({here}, {self.out_features}), or change the layer before it"
        scope.expect(x, -1, self.in_features, "features", fix)
        default = within(self.in_features)
        shape = (self.out_features, self.in_features)
        weight = scope.parameter("weight", shape, self.weight_init or default)
        y = scope.emit(MatMul(transpose_rhs=True), x, weight)
        if not self.bias:
            return y
        return scope.emit(
            Add(), y, scope.parameter("bias", (self.out_features,), self.bias_init or default)
        )


@dataclass(frozen=True, repr=False)
class Embedding(Layer):
    """Rows of a table, looked up by integers."""

    num_embeddings: int
    embedding_dim: int
    weight_init: Initialiser = field(default=init.normal(), kw_only=True, repr=False)

    def __post_init__(self) -> None:
        check_counts(self, "num_embeddings", "embedding_dim")
        check_initialisers(self, "weight_init")

    def build(self, scope: Scope, x: Value) -> Value:
        """A row for each element of x."""
        if not x.type.dtype.is_integer:
            raise CompileError(
                f"takes integers, got {x.type}",
                help="give the input an integer type: nn.Input(shape, 'i64')",
            )
        shape = (self.num_embeddings, self.embedding_dim)
        return scope.emit(Gather(0), scope.parameter("weight", shape, self.weight_init), x)


@dataclass(frozen=True, repr=False)
class Flatten(Layer):
    """Some axes as one."""

    start_dim: int = 1
    end_dim: int = -1

    def __post_init__(self) -> None:
        check_axes(self, "start_dim", "end_dim")

    def build(self, scope: Scope, x: Value) -> Value:
        """A reshape."""
        first, last = (scope.axis(x, axis) for axis in (self.start_dim, self.end_dim))
        shape = x.type.shape
        if first > last:
            raise CompileError(
                f"starts at axis {first} of its input {x.type}, after its end, axis {last}",
                help="give the first axis, then the last one",
            )
        middle = math.prod(shape[first : last + 1])
        return scope.emit(Reshape((*shape[:first], middle, *shape[last + 1 :])), x)


@dataclass(frozen=True, repr=False)
class Activation(Layer):
    """Base: one op on its input, which `op` gives."""

    @property
    def op(self) -> Op:
        """The op."""
        raise NotImplementedError

    def build(self, scope: Scope, x: Value) -> Value:
        """The op, of x."""
        return scope.emit(self.op, x)


@dataclass(frozen=True, repr=False)
class Dropout(Activation):
    """Nothing in inference; in training each element is 0 with probability `p`."""

    p: float = 0.5

    def __post_init__(self) -> None:
        check_shares(self, "p")

    @property
    def op(self) -> Op:
        """Dropout."""
        return DropoutOp(self.p)


@dataclass(frozen=True, repr=False)
class ReLU(Activation):
    """max(x, 0)."""

    op = a.Relu()


@dataclass(frozen=True, repr=False)
class GELU(Activation):
    """x times the normal distribution function of x; `approximate="tanh"` is a bit faster."""

    approximate: str = "none"

    def __post_init__(self) -> None:
        if self.approximate not in ("none", "tanh"):
            raise UsageError(
                f"GELU: approximate must be 'none' or 'tanh', got {self.approximate!r}"
            )

    @property
    def op(self) -> Op:
        """By the error function, or by tanh."""
        return a.Gelu(approximate=self.approximate == "tanh")


@dataclass(frozen=True, repr=False)
class SiLU(Activation):
    """x sigmoid(x)."""

    op = a.Swish()


@dataclass(frozen=True, repr=False)
class Tanh(Activation):
    """tanh(x)."""

    op = TanhOp()


@dataclass(frozen=True, repr=False)
class Sigmoid(Activation):
    """1 / (1 + exp(-x))."""

    op = a.Sigmoid()


@dataclass(frozen=True, repr=False)
class LeakyReLU(Activation):
    """x where it is positive, else x times a small slope."""

    negative_slope: float = 0.01

    @property
    def op(self) -> Op:
        """The slope as alpha."""
        return a.LeakyRelu(self.negative_slope)


@dataclass(frozen=True, repr=False)
class Softmax(Activation):
    """Exponentials that sum to one along an axis."""

    dim: int = -1

    def __post_init__(self) -> None:
        check_axes(self, "dim")

    @property
    def op(self) -> Op:
        """Along that axis."""
        return SoftmaxOp(self.dim)
