"""The table of ONNX's importers: one function per op and since-version."""

from __future__ import annotations

from collections.abc import Mapping
from types import ModuleType
from typing import TYPE_CHECKING

from afterglow.frontends.definition.dialect import Dialect, Importer, Results
from afterglow.support.errors import AfterglowError, ModelError
from afterglow.types import DType
from afterglow.types.onnx_elements import dtype_of

if TYPE_CHECKING:
    from afterglow.frontends.definition.graph import GraphImporter
    from afterglow.frontends.definition.model import ModelDef, NodeDef

__all__ = ["ONNX", "Importer", "Results", "normal_domain", "onnx_op", "shown_domain"]


def normal_domain(domain: str) -> str:
    """The domain as it is kept: the standard's own has two spellings."""
    return "" if domain == "ai.onnx" else domain


def shown_domain(domain: str) -> str:
    """The domain as it is shown."""
    return domain or "ai.onnx"


def _standard() -> ModuleType:
    """The module that knows the standard: it needs the library that reads ONNX files."""
    import afterglow.frontends.onnx.schema as schema  # noqa: PLC0415  # most models do without

    return schema


class OnnxDialect(Dialect):
    """ONNX: an op without an importer may still be defined by a function of the standard."""

    def knows(self, domain: str, op_type: str, version: int) -> bool:
        """Whether there is an importer, or a function of the standard."""
        if super().knows(domain, op_type, version):
            return True
        schema = _standard().find_schema(domain, op_type, version)
        return schema is not None and bool(_standard().has_function(schema))

    def importer(self, graph: GraphImporter, node: NodeDef, version: int) -> Importer:
        """Ours for the op, or the standard's function."""
        found = self.find(node.domain, node.op_type, version)
        if found is not None:
            return found
        if not self.knows(node.domain, node.op_type, version):
            raise self.missing(node.domain, node.op_type, version)
        known = _standard()
        schema = known.find_schema(node.domain, node.op_type, version)
        defaults = known.schema_defaults(schema)
        return lambda n: graph.call(known.standard_function(n, schema), defaults, n)

    def missing(self, domain: str, op_type: str, version: int) -> AfterglowError:
        """By what the standard says about the op."""
        error: AfterglowError = _standard().missing_op(domain, op_type, version)
        return error

    def shown_domain(self, domain: str) -> str:
        """The standard's own has a name."""
        return shown_domain(domain)

    def qualified(self, domain: str, op_type: str) -> str:
        """The full name of an op."""
        return f"{shown_domain(domain)}.{op_type}"

    def label(self, domain: str, op_type: str, version: int) -> str:
        """An op with the version of its domain."""
        return f"{op_type} of {shown_domain(domain)} version {version}"

    def opsets(self, model: ModelDef) -> dict[str, int]:
        """The version of each domain that the model names: ai.onnx must be among them."""
        opsets = {"": 1} if model.ir_version < 3 else {}  # which had no versions yet
        for domain, version in model.opset_import:
            if opsets.setdefault(domain, version) != version:
                raise ModelError(f"the model names two versions of {shown_domain(domain)}")
            if version < 1:
                raise ModelError(f"{shown_domain(domain)} has no version {version}")
        if "" not in opsets and any(not node.domain for node in model.graph.node):
            raise ModelError("the model does not say which version of ai.onnx it uses")
        return opsets

    def advice(self, opsets: Mapping[str, int]) -> str:
        """Whether the model is newer than what is known."""
        newest = _standard().newest_opset()
        if opsets.get("", 0) <= newest:
            return ""
        return f"the model uses version {opsets['']} of ai.onnx, {newest} is the newest known"

    def element_type(self, number: int) -> DType:
        """The element type that ONNX numbers so."""
        return dtype_of(number)


ONNX = OnnxDialect("onnx")
onnx_op = ONNX.op
