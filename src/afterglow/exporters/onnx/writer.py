"""From the graph IR to an ONNX model."""

from __future__ import annotations

from collections.abc import Sequence

from onnx import GraphProto, ModelProto, helper

from afterglow.exporters.onnx.file import GraphFile
from afterglow.exporters.onnx.layouts import Layout, plain
from afterglow.exporters.onnx.node import NodeWriter
from afterglow.exporters.onnx.own import own_domains
from afterglow.exporters.onnx.registry import exporter_of, has_exporter
from afterglow.exporters.onnx.values import Values
from afterglow.graph import Constant, Function, Module, Node, Placeholder, Value
from afterglow.lowering import LowerOps
from afterglow.ops.movement import Transpose
from afterglow.passes import Pipeline
from afterglow.support.errors import AfterglowError, UnsupportedError
from afterglow.transforms.drop_dead import DropDead
from afterglow.transforms.fold_constants import FoldConstants
from afterglow.types import TensorType
from afterglow.types.dtype import boolean

OPSET = 21
"""The first that quantizes to and from integers of 4 and 16 bits."""
IR_VERSION = 10
PRODUCER = "Afterglow"


def to_onnx(module: Module) -> ModelProto:
    """The main function of a module as an ONNX model. The module is lowered as far as needed."""
    function = module.main
    if function.states():
        raise UnsupportedError(
            "a model that keeps state cannot be exported as ONNX",
            help="export it without state: its state is then inputs and outputs",
        )
    Pipeline("export", (LowerOps(has_exporter), FoldConstants(), DropDead())).run(module)
    _check(function)
    graph = _Writer(function).graph(module.name)
    return helper.make_model(
        graph,
        opset_imports=[
            helper.make_opsetid("", OPSET),
            *(helper.make_opsetid(domain, 1) for domain in own_domains(function)),
        ],
        ir_version=IR_VERSION,
        producer_name=PRODUCER,
    )


def _check(function: Function) -> None:
    functions = (function, *function.subgraphs())
    missing = [node for each in functions for node in each.nodes if not _is_written(node)]
    if missing:
        count = f"{len(missing)} node" + ("" if len(missing) == 1 else "s")
        raise UnsupportedError(
            f"ONNX has no op for {count}",
            excerpt=[f"{n.op.mnemonic} (%{n.name}, {n.origin})" for n in missing],
        )


def _is_written(node: Node) -> bool:
    return isinstance(node.op, Transpose) or has_exporter(node)


class _Writer:
    """Writes one function."""

    def __init__(self, function: Function, outer: GraphFile | None = None) -> None:
        self.function = function
        self.file = GraphFile(outer)
        self.values = Values(self.file, self._write_constant)
        self.named: set[str] = set()
        """The names of outputs that have been written."""

    def graph(self, name: str) -> GraphProto:
        """All of it, with its inputs and outputs by their own names."""
        for placeholder in self.function.inputs:
            self._take(placeholder, self.file.names.claim(placeholder.name))
        for output in self.function.outputs:
            self.file.names.claim(output.name)
        self._write_nodes()
        inputs = [(placeholder.name, placeholder.type) for placeholder in self.function.inputs]
        outputs = [(self._output(o.name, o.value), o.value.type) for o in self.function.outputs]
        return self.file.graph(name, inputs, outputs)

    def body(self, captured: Sequence[str], condition_at: int | None) -> GraphProto:
        """The same as a graph within another, whose names differ from those around it."""
        names = self.file.names
        count = len(self.function.inputs) - len(captured)
        own, others = self.function.inputs[:count], self.function.inputs[count:]
        inputs = [(names.claim(placeholder.name), placeholder.type) for placeholder in own]
        for placeholder, (name, _) in zip(own, inputs, strict=True):
            self._take(placeholder, name)
        for placeholder, name in zip(others, captured, strict=True):
            self._take(placeholder, name)
        if condition_at is not None:
            inputs.insert(condition_at, (names.claim("goes_on"), TensorType(boolean, ())))
        self._write_nodes()
        outputs = [
            (self._output(names.claim(o.name), o.value), o.value.type)
            for o in self.function.outputs
        ]
        return self.file.graph(names.claim(self.function.name), inputs, outputs)

    def _take(self, placeholder: Placeholder, name: str) -> None:
        self.file.know_input(name, placeholder.type)
        self.values.hold(placeholder, name)

    def _write_nodes(self) -> None:
        for node in self.function.nodes:
            self._write(node)

    def _body(
        self, function: Function, captured: Sequence[str], condition_at: int | None
    ) -> GraphProto:
        return _Writer(function, self.file).body(captured, condition_at)

    def _output(self, name: str, value: Value) -> str:
        """Give what holds an output its name."""
        held = self.values.find(value, plain(value.type.rank))
        if self.file.produces(held) and held not in self.named:
            self.file.rename(held, name)
            self.values.rename(held, name)
        else:
            label = self.file.labels.claim(name)
            self.file.nodes.append(helper.make_node("Identity", [held], [name], name=label))
        self.named.add(name)
        return name

    def _write(self, node: Node) -> None:
        self.file.origin = node.origin
        match node:
            case Node(Transpose(perm), [Value() as x]):
                self.values.transposed(node.result, x, perm)
            case Node(_, operands) if operands and all(map(_is_constant, operands)):
                if len(node.results) == 1:
                    self.values.wait(node)
                else:
                    self._write_in(node, None)
            case _:
                self._write_in(node, self._layout(node))

    def _layout(self, node: Node) -> Layout | None:
        """The layout that ONNX has a node in, or else that of an operand that it can keep."""
        fixed = exporter_of(node).layout(node)
        if fixed is not None:
            return fixed
        rank = node.results[0].type.rank
        same = [x for x in node.given if x.type.rank == rank and not _is_constant(x)]
        found = [layout for x in same if (layout := self.values.layout(x)) is not None]
        can_keep = bool(found) and node.op.permuted(found[0]) is not None
        return found[0] if can_keep else None

    def _write_in(self, node: Node, layout: Layout | None) -> None:
        entry = exporter_of(node)
        op = node.op if layout is None else node.op.permuted(layout) or node.op
        try:
            names = entry.write(NodeWriter(self.values, self._body, node, op, layout))
        except AfterglowError as error:
            error.where = error.where or f"in node {node.origin or node.name!r}"
            raise
        listed = [names] if isinstance(names, str) else names
        for result, name in zip(node.results, listed, strict=True):
            self.values.hold(result, name, layout)

    def _write_constant(self, node: Node, layout: Layout) -> str:
        """Write a node of constants in the layout that is asked for, if it can be."""
        if layout == plain(len(layout)) or node.op.permuted(layout) is not None:
            self._write_in(node, layout)
        else:
            self._write_in(node, None)
            del self.values.waiting[node.result]  # which is transposed from now on
        return self.values.find(node.result, layout)


def _is_constant(value: Value | None) -> bool:
    return value is None or isinstance(value, Constant)
