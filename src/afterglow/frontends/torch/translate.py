"""Exported programs as definitions: each call of an FX graph becomes a node of the same name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import PurePath
from typing import Any

import numpy as np
import torch
from torch import fx
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind, OutputKind

from afterglow.frontends.definition.model import (
    AttributeDef,
    AttributeKind,
    DeclaredExtent,
    GraphDef,
    ModelDef,
    NodeDef,
    TensorDef,
    TypeDef,
    ValueDef,
    constant,
)
from afterglow.frontends.torch.arguments import Arguments
from afterglow.frontends.torch.decompositions import qualified_name
from afterglow.frontends.torch.elements import element_type
from afterglow.frontends.torch.node import PLACE, RESULTS
from afterglow.frontends.torch.program import PROGRAM
from afterglow.frontends.torch.registry import TORCH
from afterglow.frontends.torch.tensors import array_of
from afterglow.frontends.torch.trees import leaf_names
from afterglow.support.errors import AfterglowError, UnsupportedError
from afterglow.types.dtype import boolean, f64, i64

_DROPPED = frozenset(
    {
        ("aten", "sym_constrain_range.default"),
        ("aten", "sym_constrain_range_for_size.default"),
        ("aten", "_assert_scalar.default"),
        ("aten", "_assert_async.msg"),
        ("aten", "_assert_async.default"),
        ("aten", "_assert_tensor_metadata.default"),
    }
)
"""Calls without results that only state facts, which hold for all that we import."""


def translate_program(program: ExportedProgram) -> ModelDef:
    """The definition of a program whose ops are all imported ones, or will be refused."""
    return ModelDef(TORCH, _Program(program).run())


class _Program:
    """Translates the graph of a program with its parameters, inputs and outputs."""

    def __init__(self, program: ExportedProgram) -> None:
        self.program = program
        self.graph = GraphTranslation()
        self.inputs: list[ValueDef] = []
        self.constants: list[TensorDef] = []

    def run(self) -> GraphDef:
        nodes = list(self.program.graph.nodes)
        self._add_inputs([node for node in nodes if node.op == "placeholder"])
        results = nodes[-1].args[0]
        outputs = self._name_outputs(results)
        self.graph.add_calls(nodes)
        return GraphDef(
            "main",
            tuple(self.graph.nodes),
            tuple(self.inputs),
            tuple(outputs),
            (*self.constants, *self.graph.constants),
            self.graph.types,
        )

    def _add_inputs(self, nodes: Sequence[fx.Node]) -> None:
        specs = self.program.graph_signature.input_specs
        names = iter(leaf_names(self.program.call_spec.in_spec, ""))
        places: dict[tuple[Any, ...], str] = {}
        for node, spec in zip(nodes, specs, strict=True):
            if spec.kind is InputKind.USER_INPUT:
                next(names)
                self._add_input(node)
            else:
                self._add_constant(node, str(spec.target), places)

    def _add_input(self, node: fx.Node) -> None:
        declared = declared_type(node.meta.get("val"))
        if declared is not None:
            self.inputs.append(ValueDef(node.name, declared))

    def _add_constant(self, node: fx.Node, target: str, places: dict[tuple[Any, ...], str]) -> None:
        """A parameter, buffer or constant tensor; those in one place are one constant."""
        tensor = self._tensor(target)
        key = (tensor.data_ptr(), tensor.dtype, tuple(tensor.shape), tensor.stride())
        if key in places and tensor.numel():
            self.graph.names[node] = places[key]
            return
        places[key] = self.graph.names[node] = target
        self.constants.append(TensorDef(target, partial(_read, target, tensor), f"torch {target}"))

    def _tensor(self, target: str) -> torch.Tensor:
        found: torch.Tensor | None = self.program.state_dict.get(target)
        return self.program.constants[target] if found is None else found

    def _name_outputs(self, results: Sequence[Any]) -> list[ValueDef]:
        specs = self.program.graph_signature.output_specs
        returned = [
            result
            for result, spec in zip(results, specs, strict=True)
            if spec.kind is OutputKind.USER_OUTPUT
        ]
        names = leaf_names(self.program.call_spec.out_spec, "output")
        pairs = zip(names, returned, strict=True)
        return [ValueDef(name) for name, each in pairs if self.graph.return_as(name, each)]


def _read(name: str, tensor: torch.Tensor) -> Any:
    try:
        return array_of(tensor)
    except AfterglowError as error:
        raise type(error)(f"tensor {name!r}: {error.what}", help=error.help) from None


@dataclass
class GraphTranslation:
    """The calls of one FX graph as nodes, while they are translated."""

    names: dict[Any, str] = field(default_factory=dict)
    """What values are called that have not the name of their FX node."""
    nodes: list[NodeDef] = field(default_factory=list)
    constants: list[TensorDef] = field(default_factory=list)
    types: dict[str, TypeDef] = field(default_factory=dict)
    copies: list[tuple[str, fx.Node]] = field(default_factory=list)

    def return_as(self, name: str, result: Any) -> bool:
        """Name what is returned; whether it is anything that can be returned."""
        if isinstance(result, fx.Node):
            if result.op == "placeholder" or result in self.names:
                self.copies.append((name, result))
            else:
                self.names[result] = name
            return True
        if not isinstance(result, (bool, int, float)):
            return False  # None and texts are not tensors
        self.constants.append(constant(name, np.asarray(result)))
        return True

    def add_calls(self, nodes: Sequence[fx.Node]) -> None:
        """Translate the calls, then what is returned under a second name."""
        for node in nodes:
            if node.op == "call_function" and not self._is_resolved(node):
                self._add_call(node)
        for name, source in self.copies:
            self.nodes.append(NodeDef("alias", PROGRAM, name, (self.name_of(source),), (name,)))

    def _is_resolved(self, node: fx.Node) -> bool:
        """Whether a call needs no node: it picks a result, or only states a fact."""
        domain, name = qualified_name(node.target)
        return (domain, name) == ("_operator", "getitem") or (domain, name) in _DROPPED

    def name_of(self, node: fx.Node) -> str:
        """What the value of an FX node is called."""
        if node in self.names:
            return self.names[node]
        if node.op == "call_function" and qualified_name(node.target) == ("_operator", "getitem"):
            source, index = node.args
            assert isinstance(source, fx.Node)
            return f"{self.name_of(source)}.{index}"
        return str(node.name)

    def _add_call(self, node: fx.Node) -> None:
        domain, op_type = qualified_name(node.target)
        arguments = Arguments(self.name_of)
        try:
            attributes = arguments.attributes(node)
        except AfterglowError as error:
            where = f"in node {node.name!r} ({domain}::{op_type})"
            raise UnsupportedError(error.what, where=where, help=error.help) from None
        value = node.meta.get("val")
        attributes[RESULTS] = AttributeDef(AttributeKind.STRINGS, _results(value))
        place = source_line(node)
        if place:
            attributes[PLACE] = AttributeDef(AttributeKind.STRING, place)
        outputs = tuple(self._output_names(node, value))
        operands = tuple(arguments.operands)
        self.nodes.append(NodeDef(op_type, domain, node.name, operands, outputs, attributes))

    def _output_names(self, node: fx.Node, value: Any) -> Iterator[str]:
        if not isinstance(value, (tuple, list)):
            yield self.name_of(node)
            return
        read = {user.args[1]: user for user in reversed(node.users) if user.op == "call_function"}
        for index in range(len(value)):
            yield self.name_of(read[index]) if index in read else ""


def _results(value: Any) -> tuple[str, ...]:
    """The element types of the results that a call has, nothing for those that are None."""
    items = value if isinstance(value, (tuple, list)) else (value,)
    return tuple(map(_result, items))


def _result(value: Any) -> str:
    match value:
        case torch.Tensor():
            return element_type(value.dtype).name
        case bool() | torch.SymBool():
            return boolean.name
        case int() | torch.SymInt():
            return i64.name
        case float() | torch.SymFloat():
            return f64.name
    return ""


def declared_type(value: Any, dims: Mapping[str, str] | None = None) -> TypeDef | None:
    """The type of an input; None if export made a constant of it."""
    if isinstance(value, torch.SymInt):
        return TypeDef("tensor", i64, ())
    if not isinstance(value, torch.Tensor):
        return None
    shape = tuple(_extent(extent) for extent in value.shape)
    return TypeDef("tensor", element_type(value.dtype), shape)


def _extent(extent: Any) -> DeclaredExtent:
    return extent if isinstance(extent, int) else str(extent)


def source_line(node: fx.Node) -> str:
    """The line of the user's program that a call comes from, such as `model.py:12`."""
    trace = node.stack_trace or ""
    frames = [line.strip() for line in trace.splitlines() if line.strip().startswith("File ")]
    own = [frame for frame in frames if "/torch/" not in frame] or frames
    if not own:
        return ""
    file, line, *_ = own[-1].removeprefix("File ").split(", ")
    return f"{PurePath(file.strip(chr(34))).name}:{line.removeprefix('line ')}"
