"""Bodies of If, Loop and Scan as models of their own, for a host that drives them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b

import onnx

from afterglow.frontends.onnx.order import free_names, subgraphs
from afterglow.frontends.onnx.reader import ModelFile
from afterglow.types import Array

_SMALL_BYTES = 1024


@dataclass(frozen=True)
class BodyGraph:
    """A body, and what of the graphs around it is always the same.

    `attributes` are those of the function call that it stands in, `fixed` the outer values by name
    that never change. All else that it reads is given when it runs.
    """

    file: ModelFile
    graph: onnx.GraphProto
    opsets: Mapping[str, int]
    attributes: Mapping[str, onnx.AttributeProto]
    fixed: Mapping[str, Array]

    @cached_property
    def outer_names(self) -> list[str]:
        """The names that it reads of the graphs around it."""
        return list(free_names(self.graph))

    def has_same(
        self, attributes: Mapping[str, onnx.AttributeProto], fixed: Mapping[str, Array]
    ) -> bool:
        """Whether it was made with the same attributes of a call, and the very same arrays."""
        if self.attributes or attributes or self.fixed.keys() != fixed.keys():
            return False
        return all(fixed[name] is array for name, array in self.fixed.items())

    @cached_property
    def key(self) -> str:
        """Equal for bodies that do the same, as long as the arrays live."""
        return f"{self.digest} {[(name, _identity(array)) for name, array in self.fixed.items()]}"

    @cached_property
    def digest(self) -> str:
        """Of the body itself, without what is fixed."""
        data = self._resolved.SerializeToString(deterministic=True)
        opsets = repr(sorted(self.opsets.items())).encode()
        return blake2b(data + opsets, digest_size=20).hexdigest()

    @cached_property
    def _resolved(self) -> onnx.GraphProto:
        """The graph without references to attributes of a call."""
        if not self.attributes:
            return self.graph
        copy = onnx.GraphProto()
        copy.CopyFrom(self.graph)
        _resolve(copy.node, self.attributes)
        return copy

    @cached_property
    def input_names(self) -> list[str]:
        """What it takes besides outer values."""
        return [info.name for info in self.graph.input]

    @cached_property
    def output_names(self) -> list[str]:
        """What it returns; a name may stand here twice, or be that of an input."""
        return [info.name for info in self.graph.output]

    def as_model(self, given: Collection[str]) -> ModelFile | None:
        """A model without inputs that computes what is not given; None if nothing is left to do."""
        computed = dict.fromkeys(name for name in self.output_names if name not in given)
        if not computed:
            return None
        model = onnx.ModelProto(ir_version=self.file.proto.ir_version)
        for domain, version in self.opsets.items():
            model.opset_import.add(domain=domain, version=version)
        model.functions.extend(self.file.proto.functions)
        model.graph.CopyFrom(self._resolved)
        del model.graph.input[:], model.graph.output[:]
        for name in computed:  # without types: what is declared need not hold each time
            model.graph.output.add(name=name)
        return ModelFile(model, self.file.files)


def _identity(array: Array) -> object:
    """Equal for small arrays that are equal, and for large ones that lie in the same place."""
    if array.dtype == object:
        return id(array)
    where = array.tobytes() if array.nbytes <= _SMALL_BYTES else array.__array_interface__["data"]
    return where, array.dtype, array.shape, array.strides


def _resolve(
    nodes: Sequence[onnx.NodeProto], attributes: Mapping[str, onnx.AttributeProto]
) -> None:
    """Write the attributes of a call where nodes refer to them; what it has not, they have not."""
    for node in nodes:
        own = [(a, attributes.get(a.ref_attr_name)) for a in node.attribute if a.ref_attr_name]
        for attribute, given in own:
            name = attribute.name
            if given is None:
                node.attribute.remove(attribute)
            else:
                attribute.CopyFrom(given)
                attribute.name = name
        for graph in subgraphs(node):
            _resolve(graph.node, attributes)
