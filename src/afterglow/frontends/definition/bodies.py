"""Bodies of If, Loop and Scan as models of their own, for a host that drives them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import cached_property

from afterglow.frontends.definition.model import (
    CHUNK,
    AttributeDef,
    GraphDef,
    ModelDef,
    NodeDef,
    ValueDef,
)
from afterglow.frontends.definition.order import free_names
from afterglow.support.digest import digest_of_texts
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types import Array

_SMALL_BYTES = 1024


@dataclass(frozen=True)
class BodyGraph:
    """A body, and what of the graphs around it is always the same.

    `attributes` are those of the function call that it stands in, `fixed` the outer values by name
    that never change. All else that it reads is given when it runs.
    """

    model: ModelDef
    graph: GraphDef
    opsets: Mapping[str, int]
    attributes: Mapping[str, AttributeDef]
    fixed: Mapping[str, Array]

    @property
    def is_repeated(self) -> bool:
        """Whether one run does so much that it is worth compiling for: many iterations."""
        return any(CHUNK in node.attributes for node in self.graph.node)

    @cached_property
    def outer_names(self) -> list[str]:
        """The names that it reads of the graphs around it."""
        return list(free_names(self.graph))

    def has_same(self, attributes: Mapping[str, AttributeDef], fixed: Mapping[str, Array]) -> bool:
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
        return digest_of_texts([repr(self._resolved.identity), repr(sorted(self.opsets.items()))])

    @cached_property
    def _resolved(self) -> GraphDef:
        """The graph without references to attributes of a call."""
        if not self.attributes:
            return self.graph
        return replace(self.graph, node=_resolved(self.graph.node, self.attributes))

    @cached_property
    def input_names(self) -> list[str]:
        """What it takes besides outer values."""
        return [info.name for info in self.graph.input]

    @cached_property
    def output_names(self) -> list[str]:
        """What it returns; a name may stand here twice, or be that of an input."""
        return [info.name for info in self.graph.output]

    def as_model(self, given: Collection[str]) -> ModelDef | None:
        """A model without inputs that computes what is not given; None if nothing is left to do."""
        computed = dict.fromkeys(name for name in self.output_names if name not in given)
        if not computed:
            return None
        # without types: what is declared need not hold each time
        graph = replace(self._resolved, input=(), output=tuple(map(ValueDef, computed)))
        return replace(self.model, graph=graph, opset_import=tuple(self.opsets.items()))


def _identity(array: Array) -> object:
    """Equal for small arrays that are equal, and for large ones that lie in the same place."""
    if array.dtype == object:
        return id(array)
    where = array.tobytes() if array.nbytes <= _SMALL_BYTES else array.__array_interface__["data"]
    return where, array.dtype, array.shape, array.strides


def _resolved(
    nodes: Sequence[NodeDef], attributes: Mapping[str, AttributeDef]
) -> tuple[NodeDef, ...]:
    """Nodes with the attributes of a call where they refer to them; without those it lacks."""
    found = []
    for node in nodes:
        own = {name: _given(each, attributes) for name, each in node.attributes.items()}
        kept = {name: each for name, each in own.items() if each is not None}
        found.append(replace(node, attributes=kept))
    return tuple(found)


def _given(attribute: AttributeDef, attributes: Mapping[str, AttributeDef]) -> AttributeDef | None:
    if attribute.reference:
        return attributes.get(attribute.reference)
    if not attribute.graphs:
        return attribute
    graphs = [replace(g, node=_resolved(g.node, attributes)) for g in attribute.graphs]
    is_one = isinstance(attribute.value, GraphDef)
    return replace(attribute, value=graphs[0] if is_one else tuple(graphs))
