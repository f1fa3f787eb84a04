"""The graph of an ONNX file as it is written: nodes, initializers, and names for them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from onnx import GraphProto, NodeProto, TensorProto, helper, numpy_helper

from afterglow.support.errors import UnsupportedError
from afterglow.support.names import NameScope
from afterglow.types import Array, TensorType
from afterglow.types.dtype import DType
from afterglow.types.extent import Atom, Dim, Extreme, Quotient, Remainder, is_ranged
from afterglow.types.extent.atoms import terms_of
from afterglow.types.onnx_elements import ONNX_OF_DTYPE


class GraphFile:
    """Nodes and initializers in the order in which they were added.

    Names are unique in a graph and in those within it, which read what is around them.
    """

    def __init__(self, outer: GraphFile | None = None) -> None:
        self.names: NameScope = NameScope() if outer is None else outer.names
        self.labels: NameScope = NameScope() if outer is None else outer.labels
        """The names of nodes."""
        self.nodes: list[NodeProto] = []
        self.initializers: list[TensorProto] = []
        self.origin = ""
        """The name for nodes that are added: that of the model's own node."""
        self._dims: dict[str, tuple[str, int]] = {} if outer is None else {**outer._dims}
        self._constants: dict[tuple[Any, ...], str] = {}
        self._extents: dict[int, str] = {}

    def know_input(self, name: str, type: TensorType) -> None:
        """Let an input tell the extents of the dimensions that its type names."""
        for axis, extent in enumerate(type.shape):
            dim = _only_dim(extent)
            if dim is not None:
                self._dims.setdefault(dim.name, (name, axis))

    def add(
        self,
        op_type: str,
        inputs: Sequence[str],
        name: str,
        outputs: int = 1,
        attributes: Mapping[str, Any] | None = None,
        domain: str = "",
    ) -> list[str]:
        """Add a node whose results are called `name`, or like it; empty inputs are left out."""
        results = [self.names.claim(name) for _ in range(outputs)]
        given = [*inputs]
        while given and not given[-1]:
            given.pop()
        label = self.labels.claim(self.origin or results[0])
        node = helper.make_node(op_type, given, results, label, **(attributes or {}))
        node.domain = domain
        self.nodes.append(node)
        return results

    def constant(self, data: Array, name: str) -> str:
        """Add an initializer."""
        claimed = self.names.claim(name)
        self.initializers.append(tensor_of(data, claimed))
        return claimed

    def small_constant(self, data: Array, name: str) -> str:
        """An initializer, the one that there is already for equal numbers."""
        key = (data.dtype.str, data.shape, data.tobytes())
        if key not in self._constants:
            self._constants[key] = self.constant(data, name)
        return self._constants[key]

    def integers(self, values: Iterable[int], name: str = "integers") -> str:
        """A vector of i64, computed from the shapes of inputs where values are ranged."""
        listed = [*values]
        if not any(map(is_ranged, listed)):
            return self.small_constant(np.array(listed, np.int64), name)
        parts = [self._extent(value) for value in listed]
        return self.add("Concat", parts, name, attributes={"axis": 0})[0]

    def reshape(self, name: str, shape: Sequence[int], wanted: str) -> str:
        """Add a node that gives a tensor another shape; an extent of 0 is one, not a copy."""
        attributes = {"allowzero": 1} if 0 in shape else None
        return self.add("Reshape", (name, self.integers(shape)), wanted, 1, attributes)[0]

    def _extent(self, value: int) -> str:
        """A vector of one number."""
        if not is_ranged(value):
            return self.small_constant(np.array([int(value)], np.int64), "extent")
        if value not in self._extents:
            terms = [self._term(*term) for term in terms_of(value)]
            self._extents[value] = self._folded("Add", terms)
        return self._extents[value]

    def _term(self, atoms: Sequence[Atom], factor: int) -> str:
        factors = [self._atom(atom) for atom in atoms]
        if factor != 1 or not factors:
            factors.append(self._extent(factor))
        return self._folded("Mul", factors)

    def _folded(self, op_type: str, parts: list[str]) -> str:
        first, *others = parts
        for other in others:
            first = self.add(op_type, (first, other), "extent")[0]
        return first

    def _atom(self, atom: Atom) -> str:
        match atom:
            case Dim():
                return self._dim(atom)
            case Quotient(dividend, divisor):
                return self._of("Div", dividend, divisor)
            case Remainder(dividend, divisor):
                return self._of("Mod", dividend, divisor)
            case Extreme(first, second, larger):
                return self._of("Max" if larger else "Min", first, second)
        raise UnsupportedError(f"cannot write the extent {atom} to an ONNX file")

    def _of(self, op_type: str, first: int, second: int) -> str:
        return self.add(op_type, (self._extent(first), self._extent(second)), "extent")[0]

    def _dim(self, dim: Dim) -> str:
        if dim.name not in self._dims:
            raise UnsupportedError(
                f"no input tells the extent of dimension {dim.name!r}",
                help="give it an exact extent",
            )
        name, axis = self._dims[dim.name]
        ends = {"start": axis, "end": axis + 1}
        return self.add("Shape", (name,), dim.name, attributes=ends)[0]

    def graph(
        self,
        name: str,
        inputs: Sequence[tuple[str, TensorType]],
        outputs: Sequence[tuple[str, TensorType]],
    ) -> GraphProto:
        """All of it as a message."""
        return helper.make_graph(
            self.nodes,
            name,
            [_value_info(*each) for each in inputs],
            [_value_info(*each) for each in outputs],
            self.initializers,
        )

    def produces(self, name: str) -> bool:
        """Whether a node gives the tensor, and not an input, an initializer or a graph around."""
        return any(name in node.output for node in self.nodes)

    def rename(self, old: str, new: str) -> None:
        """Give the result of a node the name of an output."""
        for node in self.nodes:
            for names in (node.input, node.output):
                for index, name in enumerate(names):
                    if name == old:
                        names[index] = new


def _only_dim(extent: int) -> Dim | None:
    """The dimension that an extent is, if it is nothing else."""
    match terms_of(extent):
        case (((Dim() as dim,), 1),):
            return dim
    return None


def _value_info(name: str, type: TensorType) -> Any:
    shape = [str(extent) if is_ranged(extent) else int(extent) for extent in type.shape]
    return helper.make_tensor_value_info(name, onnx_type(type.dtype), shape)


def onnx_type(dtype: DType) -> int:
    """ONNX's number of an element type."""
    return ONNX_OF_DTYPE[dtype]


def tensor_of(data: Array, name: str) -> TensorProto:
    """An array as a tensor of a file."""
    if data.dtype == object:
        texts = [str(text).encode() for text in data.reshape(-1)]
        return TensorProto(
            name=name, data_type=TensorProto.STRING, dims=data.shape, string_data=texts
        )
    return numpy_helper.from_array(np.ascontiguousarray(data).reshape(data.shape), name)
