"""Exported programs as definitions: parameters, inputs and outputs of their graphs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import torch
from torch import fx
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind, OutputKind

from afterglow.frontends.base import KeptState
from afterglow.frontends.definition.model import GraphDef, ModelDef, TensorDef, TypeDef, ValueDef
from afterglow.frontends.torch.calls import Calls
from afterglow.frontends.torch.dims import DimNames
from afterglow.frontends.torch.elements import element_type
from afterglow.frontends.torch.registry import TORCH
from afterglow.frontends.torch.tensors import read_tensor
from afterglow.frontends.torch.trees import input_names, output_names
from afterglow.support.errors import UnsupportedError
from afterglow.support.lazy_dataclass import dataclass
from afterglow.support.names import NameScope
from afterglow.types.dtype import boolean, f64, i64

_TENSORS = (InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR)
_WRITTEN = (OutputKind.BUFFER_MUTATION, OutputKind.PARAMETER_MUTATION)


@dataclass(frozen=True)
class Translated:
    """The definition of a program, and the inputs that it keeps as state."""

    model: ModelDef
    state: tuple[KeptState, ...]


def translate_program(program: ExportedProgram) -> Translated:
    """The definition of a program. What it writes into buffers is among its outputs.

    The buffers are inputs of the definition then, and state of the program.
    """
    return _Program(program).run()


class _Program:
    """Translates the graph of a program with its parameters, inputs and outputs."""

    def __init__(self, program: ExportedProgram) -> None:
        self.program = program
        self.calls = Calls(program.graph)
        self.names = NameScope()
        """Of inputs, constants and outputs; other values give way."""
        self.inputs: list[ValueDef] = []
        self.outputs: list[ValueDef] = []
        self.constants: list[TensorDef] = []
        self.kept: dict[str, KeptState] = {}
        """The buffers that are written, by what the program calls them."""
        self.places: dict[tuple[Any, ...], str] = {}
        """The names of constants, by where their elements lie."""
        self.dims = DimNames(())
        self.returned: list[tuple[str, Any]] = []
        """What the user returns; its names come before those of buffers."""
        specs = program.graph_signature.output_specs
        self.written = {spec.target for spec in specs if spec.kind in _WRITTEN}

    def run(self) -> Translated:
        nodes = list(self.program.graph.nodes)
        self._add_inputs([node for node in nodes if node.op == "placeholder"])
        self._add_outputs()
        for node in nodes:
            if node.op == "call_function" and node not in self.calls.names:
                self._give_way(node)
        self.calls.add_calls()
        constants = (*self.constants, *self.calls.constants)
        graph = GraphDef("main", (*self.calls.nodes,), (*self.inputs,), (*self.outputs,), constants)
        return Translated(ModelDef(TORCH, graph), tuple(self.kept.values()))

    def _give_way(self, node: fx.Node) -> None:
        """Rename what the graph calls as the user calls another value."""
        if node.name in self.names:
            self.calls.names[node] = self.names.claim(node.name)

    def _add_inputs(self, nodes: Sequence[fx.Node]) -> None:
        specs = self.program.graph_signature.input_specs
        given = [n for n, spec in zip(nodes, specs, strict=True) if _is_given(spec)]
        named = list(zip(given, self._input_names(), strict=True))
        self.dims = DimNames((name, node.meta.get("val")) for node, name in named)
        for node, name in named:
            declared = input_type(name, node.meta.get("val"), self.dims)
            if declared is not None:
                self.calls.names[node] = self.names.claim(name)
                self.inputs.append(ValueDef(self.calls.names[node], declared))
        self.returned = list(self._user_outputs())
        for node, spec in zip(nodes, specs, strict=True):
            if spec.kind in _TENSORS:
                self._add_tensor(node, str(spec.target))
            elif not _is_given(spec) and node.users:
                raise UnsupportedError(
                    f"the program takes a {spec.kind.name.lower().replace('_', ' ')}",
                    where=f"in node {node.name!r}",
                )

    def _input_names(self) -> list[str]:
        call = self.program.module_call_graph[0].signature
        arguments = getattr(call, "forward_arg_names", None) or ()
        return input_names(self.program.call_spec.in_spec, arguments)

    def _add_tensor(self, node: fx.Node, target: str) -> None:
        """A parameter, buffer or constant tensor; those in one place are one constant."""
        tensor = self._tensor(target)
        place = _place(tensor)
        if place in self.places and tensor.numel() and target not in self.written:
            self.calls.names[node] = self.places[place]
            return
        name = self.calls.names[node] = self.names.claim(target)
        read = partial(read_tensor, target, tensor)
        if target in self.written:
            self.inputs.append(ValueDef(name, declared_type(tensor)))
            self.kept[target] = KeptState(name, self.names.claim(f"{name}.next"), read)
        else:
            self.places[place] = name
            self.constants.append(TensorDef(name, read, f"torch {name}"))

    def _tensor(self, target: str) -> torch.Tensor:
        found: torch.Tensor | None = self.program.state_dict.get(target)
        return self.program.constants[target] if found is None else found

    def _add_outputs(self) -> None:
        """Name what is returned, and what is written."""
        for name, result in (*self.returned, *self._written()):
            if isinstance(result, fx.Node):
                self.calls.return_as(name, result)
                declared = declared_type(result.meta.get("val"), self.dims)
                self.outputs.append(ValueDef(name, declared))
            elif isinstance(result, (bool, int, float)):  # not None and texts
                self.calls.add_number(name, result)
                self.outputs.append(ValueDef(name))

    def _user_outputs(self) -> Iterator[tuple[str, Any]]:
        """What the user returns, by name."""
        specs = self.program.graph_signature.output_specs
        results = zip(specs, self.calls.results(), strict=True)
        returned = [result for spec, result in results if spec.kind is OutputKind.USER_OUTPUT]
        names = output_names(self.program.call_spec.out_spec)
        for name, result in zip(names, returned, strict=True):
            yield self._output_name(name, result), result

    def _written(self) -> Iterator[tuple[str, Any]]:
        """What is written into buffers and inputs, by name."""
        specs = self.program.graph_signature.output_specs
        for spec, result in zip(specs, self.calls.results(), strict=True):
            if spec.kind is not OutputKind.USER_OUTPUT:
                yield self._next_name(spec), result

    def _next_name(self, spec: Any) -> str:
        """What a buffer or an input is called once it is written."""
        if spec.kind in _WRITTEN:
            return self.kept[spec.target].output
        if spec.kind is OutputKind.USER_INPUT_MUTATION:
            taken = {node.name: name for node, name in self.calls.names.items()}
            return self.names.claim(f"{taken[spec.target]}.next")
        kind = spec.kind.name.lower().replace("_", " ")
        raise UnsupportedError(f"the program returns a {kind}")

    def _output_name(self, name: str, result: Any) -> str:
        """The name, unless another value has it; an input may be returned under its own."""
        is_same = isinstance(result, fx.Node) and self.calls.names.get(result) == name
        return name if is_same else self.names.claim(name)


def _is_given(spec: Any) -> bool:
    return spec.kind is InputKind.USER_INPUT


def _place(tensor: torch.Tensor) -> tuple[Any, ...]:
    """What tensors have in common that are the same elements in the same memory."""
    if tensor.layout is not torch.strided:  # which is refused when it is read
        return (id(tensor),)
    return (tensor.data_ptr(), tensor.dtype, tuple(tensor.shape), tensor.stride())


def input_type(name: str, value: Any, dims: DimNames) -> TypeDef | None:
    """The type of an input; None if export made a constant of it."""
    if isinstance(value, torch.Tensor) and value.is_complex():
        raise UnsupportedError(
            f"input {name!r} is complex, which is not supported",
            help="take its real and imaginary parts, and combine them: torch.complex(real, imag)",
        )
    return declared_type(value, dims)


def declared_type(value: Any, dims: DimNames | None = None) -> TypeDef | None:
    """The type of a tensor or number; None if it is neither."""
    numbers = ((torch.SymBool, boolean), (torch.SymInt, i64), (torch.SymFloat, f64))
    for kind, element in numbers:
        if isinstance(value, kind):
            return TypeDef("tensor", element, ())
    if not isinstance(value, torch.Tensor):
        return None
    shape = tuple(map((dims or DimNames(())).extent, value.shape))
    return TypeDef("tensor", element_type(value.dtype), shape)
