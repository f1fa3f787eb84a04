"""Dialects: the ops that models of one kind are made of, each with the function that imports it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

from afterglow.frontends.definition.context import Imported, NodeContext
from afterglow.frontends.definition.own import own_importer
from afterglow.support.errors import AfterglowError, ModelError, UnsupportedError
from afterglow.types import DType

if TYPE_CHECKING:
    from afterglow.frontends.definition.graph import GraphImporter
    from afterglow.frontends.definition.model import ModelDef, NodeDef

Results: TypeAlias = Imported | Sequence[Imported | None]
Importer: TypeAlias = Callable[[NodeContext], Results]


class Dialect:
    """The ops of one kind of model, by domain and name, and from which version on each holds.

    `context` is the class of what importers see of a node.
    """

    def __init__(self, name: str, context: type[NodeContext] = NodeContext) -> None:
        self.name = name
        self.context = context
        self.importers: dict[tuple[str, str], list[tuple[int, Importer]]] = {}
        """(domain, op type) -> [(since version, function)], newest first."""

    def op(
        self, *op_types: str, since: int = 1, domain: str = ""
    ) -> Callable[[Importer], Importer]:
        """Register a function for ops from version `since` on, up to the next one registered.

        It returns the value of each output, or a single one; None for an output nobody wants.
        """

        def register(function: Importer) -> Importer:
            for op_type in op_types:
                versions = self.importers.setdefault((domain, op_type), [])
                versions.append((since, function))
                versions.sort(key=lambda version: -version[0])
            return function

        return register

    def find(self, domain: str, op_type: str, version: int) -> Importer | None:
        """The function registered for an op as a version of its domain defines it.

        An op that a user has bound to it comes first.
        """
        own = own_importer(self.name, domain, op_type)
        if own is not None:
            return own
        for since, function in self.importers.get((domain, op_type), []):
            if since <= version:
                return function
        return None

    def knows(self, domain: str, op_type: str, version: int) -> bool:
        """Whether a node of the op can be imported."""
        return self.find(domain, op_type, version) is not None

    def importer(self, graph: GraphImporter, node: NodeDef, version: int) -> Importer:
        """What imports a node that calls no function of the model."""
        found = self.find(node.domain, node.op_type, version)
        if found is None:
            raise self.missing(node.domain, node.op_type, version)
        return found

    def missing(self, domain: str, op_type: str, version: int) -> AfterglowError:
        """Why there is nothing to import a node with."""
        return UnsupportedError("this op is not supported", help="replace it by supported ops")

    def qualified(self, domain: str, op_type: str) -> str:
        """The full name of an op."""
        return f"{domain}.{op_type}" if domain else op_type

    def shown_domain(self, domain: str) -> str:
        """A domain as it is shown: ops without one are the dialect's own."""
        return domain or self.name

    def label(self, domain: str, op_type: str, version: int) -> str:
        """An op as errors call it."""
        return self.qualified(domain, op_type)

    def place(self, node: NodeDef) -> str:
        """Where in its user's program a node comes from; nothing if that is not known."""
        return ""

    def opsets(self, model: ModelDef) -> dict[str, int]:
        """The version of each domain that a model names."""
        return dict(model.opset_import)

    def advice(self, opsets: Mapping[str, int]) -> str:
        """What may explain problems of a model that uses these versions of domains."""
        return ""

    def element_type(self, number: int) -> DType:
        """The element type that attributes of the dialect number so."""
        raise ModelError(f"there is no element type {number}")
