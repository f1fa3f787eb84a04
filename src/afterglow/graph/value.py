"""Values and nodes: the wiring of a dataflow graph."""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from enum import Enum
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from afterglow.graph.op import Op
from afterglow.graph.origins import Origins
from afterglow.types import Array, DType, FillLevel, Quantization, TensorType
from afterglow.types.extent import walk_extents
from afterglow.types.later import LaterArray, array_of

if TYPE_CHECKING:
    from afterglow.graph.function import Function


class Value:
    """Something typed that nodes take as an operand: a result, a placeholder or a constant.

    Matches as `Value(producer)`: None for what no node produces.
    """

    __match_args__ = ("producer",)

    def __init__(self, name: str, type: TensorType, producer: Node | None = None) -> None:
        self.name = name
        self.type = type
        self.producer = producer
        self._uses: dict[tuple[Node, int], None] = {}

    @property
    def uses(self) -> list[tuple[Node, int]]:
        """The uses, (node, operand index), in the order of connection; index -1 is a predicate."""
        return list(self._uses)

    @property
    def users(self) -> list[Node]:
        """The nodes that use it, each once."""
        return list(dict.fromkeys(node for node, _ in self._uses))

    def is_used_only_by(self, nodes: Container[Node]) -> bool:
        """Whether no other nodes use it."""
        return all(node in nodes for node, _ in self._uses)

    @property
    def use_count(self) -> int:
        """The number of uses."""
        return len(self._uses)

    def has_use(self, node: Node, index: int) -> bool:
        """Whether it lists itself as that operand of that node."""
        return (node, index) in self._uses

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name}: {self.type}>"


Gradients: TypeAlias = tuple[Value | None, ...]
"""What `Op.gradient` returns: one entry an operand, None where nothing flows back."""


class Constant(Value):
    """A value known when compiling. Its array is never written, and may be a view of a file.

    `content` is the array, or how it follows from another; `data` is the array in any case.
    """

    __match_args__ = ("data",)

    def __init__(self, name: str, data: Array | LaterArray, type: TensorType | None = None) -> None:
        super().__init__(name, type or TensorType(DType.of(data.dtype), data.shape))
        self.content = data

    @property
    def data(self) -> Array:
        """The array, in memory for as long as somebody holds it."""
        return array_of(self.content)

    @data.setter
    def data(self, data: Array) -> None:
        self.content = data

    def is_all(self, number: float) -> bool:
        """Whether every element equals `number`; cheap to ask of large constants."""
        data = self.data
        if data.size == 0 or not self.type.dtype.is_number:
            return False
        first = data[(0,) * data.ndim]
        return bool(first == number) and bool(np.all(data == first))


class PlaceholderKind(Enum):
    """What a placeholder stands for."""

    INPUT = "input"
    STATE = "state"


class Placeholder(Value):
    """Memory that the optimiser cannot see into: an input of a function, or mutable state."""

    def __init__(
        self,
        name: str,
        type: TensorType,
        kind: PlaceholderKind,
        level: FillLevel | None = None,
    ) -> None:
        super().__init__(name, type)
        self.kind = kind
        self.level = level
        """How far it is filled, of state that grows."""
        self.quantization: Quantization | None = None
        """What the integers of an input stand for, to callers; nodes say so themselves."""


class Node:
    """An op applied to operands. Matches as `Node(op, operands)`.

    An operand that is None was optional and not given. The predicate, a boolean scalar, says when
    the results are needed: where it is false, a backend may skip the node. It is a hint, never
    control flow. `origins` are the names of the model's own nodes that this one computes.
    """

    __match_args__ = ("op", "operands")

    def __init__(
        self,
        op: Op,
        operands: Sequence[Value | None],
        types: Sequence[TensorType],
        names: Sequence[str],
        origins: Origins = (),
    ) -> None:
        self.op = op
        self.origins = origins
        self.function: Function | None = None
        self.before: Node | None = None
        self.after: Node | None = None
        self.results = tuple(
            Value(name, type, self) for name, type in zip(names, types, strict=True)
        )
        self._predicate: Value | None = None
        self._operands: list[Value | None] = []
        self.set_operands(operands)

    @property
    def origin(self) -> str:
        """The first of its origins, which stands for it in messages; empty if it has none."""
        return self.origins[0] if self.origins else ""

    @property
    def operands(self) -> list[Value | None]:
        """The operands, in the order of the parameters of `op.infer`."""
        return list(self._operands)

    @property
    def given(self) -> list[Value]:
        """The operands without those that were not given."""
        return [operand for operand in self._operands if operand is not None]

    @property
    def predicate(self) -> Value | None:
        """When the results are needed; None for always."""
        return self._predicate

    @predicate.setter
    def predicate(self, value: Value | None) -> None:
        if self._predicate is not None:
            del self._predicate._uses[(self, -1)]
        self._predicate = value
        self._connect(-1, value)

    @property
    def result(self) -> Value:
        """The only result."""
        (only,) = self.results
        return only

    @property
    def name(self) -> str:
        """The name of the first result, which stands for the node."""
        return self.results[0].name

    @property
    def is_ranged(self) -> bool:
        """Whether what it computes depends on the extents of dimensions."""
        if any(value.type.is_ranged for value in (*self.results, *self.given)):
            return True
        return next(walk_extents(tuple(vars(self.op).values())), None) is not None

    def operand(self, name: str) -> Value | None:
        """The operand that `op.infer` calls `name`; None if it was not given."""
        index = self.op.operand_names.index(name)
        return self._operands[index] if index < len(self._operands) else None

    def set_operand(self, index: int, value: Value | None) -> None:
        """Connect operand `index` to another value."""
        old = self._operands[index]
        if old is not None:
            del old._uses[(self, index)]
        self._operands[index] = value
        self._connect(index, value)

    def set_operands(self, operands: Sequence[Value | None]) -> None:
        """Connect it to other operands, of any number."""
        for index, operand in enumerate(self._operands):
            if operand is not None:
                del operand._uses[(self, index)]
        self._operands = list(operands)
        for index, operand in enumerate(operands):
            self._connect(index, operand)

    def inputs(self) -> Iterator[Value]:
        """Every value that it reads: operands and predicate."""
        yield from self.given
        if self._predicate is not None:
            yield self._predicate

    def disconnect(self) -> None:
        """Drop all operands, before the node is erased."""
        self.set_operands(())
        self.predicate = None

    def _connect(self, index: int, value: Value | None) -> None:
        if value is not None:
            value._uses[(self, index)] = None

    def __repr__(self) -> str:
        return f"<Node {self.op.mnemonic} {self.name}>"
