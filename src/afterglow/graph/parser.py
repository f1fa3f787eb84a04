"""Modules from text: the inverse of `printer`. Types are inferred anew and compared."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from afterglow.graph.attributes import parse_attributes
from afterglow.graph.builder import infer_types
from afterglow.graph.function import Function, Module
from afterglow.graph.host_op import HostOp
from afterglow.graph.op import OPS, Op
from afterglow.graph.origins import parse_origins
from afterglow.graph.subgraph import Subgraph
from afterglow.graph.value import Node, Placeholder, Value
from afterglow.support.errors import AfterglowError, ParseError, TypeRuleError
from afterglow.support.lexer import TokenStream
from afterglow.types import Array, DType, Quantization, TensorType
from afterglow.types.dtype import DTYPES, Kind
from afterglow.types.dynamic import (
    UNKNOWN,
    DynamicExtent,
    DynamicType,
    Extent,
    HostKind,
    HostType,
    tensor_type,
)
from afterglow.types.extent.text import (
    continue_call,
    continue_extent,
    continues,
    declared_extent,
    parse_dims,
    parse_extent,
    parse_level,
    starts_call,
)


def parse_module(text: str, payload: Mapping[str, Array] | None = None) -> Module:
    """Read a module; `payload` holds the constants whose elements the text leaves out."""
    return _ModuleParser(TokenStream(text), payload or {}).run()


def parse_function(text: str, payload: Mapping[str, Array] | None = None) -> Function:
    """Read a module and return its main function."""
    return parse_module(text, payload).main


def parse_type(tokens: TokenStream) -> TensorType:
    """Read a type such as `f32[1, 3]`, `i8[4; scale 0.5, offset -3]`, `f32[?, 3]` or `f32[*]`."""
    if tokens.accept(HostKind.ANY.value):
        return HostType(HostKind.ANY)
    word = tokens.take("word", "an element type")
    if word in _HOST_KINDS:
        return HostType(_HOST_KINDS[word])
    if word not in DTYPES:
        raise tokens.error(f"no such element type: {word!r}")
    tokens.expect("[")
    if tokens.accept("*"):
        tokens.expect("]")
        return DynamicType(DTYPES[word], None)
    extents = []
    while tokens.next.text not in ("]", ";"):
        extents.append(_parse_extent(tokens))
        if tokens.next.text not in ("]", ";"):
            tokens.expect(",")
    quantization = _parse_quantization(tokens) if tokens.accept(";") else None
    tokens.expect("]")
    try:
        type = tensor_type(DTYPES[word], extents)
        return type if quantization is None else replace(type, quantization=quantization)
    except (TypeError, ValueError) as error:
        raise tokens.error(str(error)) from None
    except TypeRuleError as error:
        raise tokens.error(error.what) from None


_HOST_KINDS = {kind.value: kind for kind in HostKind if kind is not HostKind.ANY}


def _parse_extent(tokens: TokenStream) -> Extent:
    """Read an expression over declared dimensions, `?`, or the name of a dynamic dimension."""
    if tokens.accept("?"):
        return UNKNOWN
    if tokens.next.kind not in ("string", "word"):
        return parse_extent(tokens)
    token = tokens.next
    text = tokens.take(token.kind)
    if token.kind == "word" and starts_call(tokens, text):
        return continue_extent(tokens, continue_call(tokens, text))
    name = json.loads(text) if token.kind == "string" else text
    if name not in tokens.extents and not continues(tokens):
        return DynamicExtent(name)
    return continue_extent(tokens, declared_extent(tokens, name))


def _parse_quantization(tokens: TokenStream) -> Quantization:
    if tokens.accept("scale"):
        scale = float(tokens.take("number"))
        tokens.expect(",")
        tokens.expect("offset")
        return Quantization((scale,), (tokens.integer(),))
    tokens.expect("axis")
    axis = tokens.integer()
    tokens.expect(",")
    tokens.expect("scales")
    scales = _numbers(tokens)
    tokens.expect(",")
    tokens.expect("offsets")
    return Quantization(tuple(scales), tuple(int(n) for n in _numbers(tokens)), axis)


def _numbers(tokens: TokenStream) -> list[float]:
    tokens.expect("(")
    numbers = []
    while not tokens.accept(")"):
        numbers.append(float(tokens.take("number")))
        if tokens.next.text != ")":
            tokens.expect(",")
    return numbers


def unknown_op(tokens: TokenStream, name: str, what: str) -> ParseError:
    """The error about an op that nobody has declared; `what` it would be here."""
    if "::" not in name:
        return tokens.error(f"no such {what}: {name!r}")
    error = tokens.error(f"op {name!r} is not declared")
    error.help = "import the file that declares it first; on the command line, --ops FILE.py"
    return error


class _ModuleParser:
    """Recursive descent over `dim`, `const`, `state` and `func`."""

    def __init__(self, tokens: TokenStream, payload: Mapping[str, Array]) -> None:
        self.tokens = tokens
        self.payload = payload
        self.module = Module()

    def run(self) -> Module:
        parse_dims(self.tokens)
        while self.tokens.next.kind != "end":
            word = self.tokens.take("word", "'const', 'state' or 'func'")
            match word:
                case "const":
                    self._constant()
                case "state":
                    name, type = self._declared("state")
                    self.module.state(name, type, parse_level(self.tokens))
                case "func":
                    _FunctionParser(self.tokens, self.module).run()
                case _:
                    raise self.tokens.error(f"expected 'const', 'state' or 'func', found {word!r}")
        if not self.module.functions:
            raise self.tokens.error("there is no function")
        return self.module

    def _declared(self, what: str) -> tuple[str, TensorType]:
        name = self.tokens.name("@", f"the name of a {what}")
        if name in self.module.constants or name in self.module.states:
            raise self.tokens.error(f"@{name} is declared twice")
        self.tokens.expect(":")
        return name, parse_type(self.tokens)

    def _constant(self) -> None:
        name, type = self._declared("constant")
        data = self._elements(type) if self.tokens.accept("=") else self.payload.get(name)
        if data is None:
            raise ParseError(
                f"the elements of constant @{name} are missing",
                where=f"in line {self.tokens.next.line}",
                help="pass payload={name: array}, or write them: = [1, 2] or = fill 0",
            )
        if data.shape != type.shape or DType.of(data.dtype) is not type.dtype:
            raise self.tokens.error(f"@{name} is {type}, its payload is {TensorType.of(data)}")
        self.module.constant(name, data, type)

    def _elements(self, type: TensorType) -> Array:
        if self.tokens.accept("fill"):
            return np.full(type.shape, self._element(type), type.dtype.numpy)
        self.tokens.expect("[")
        elements = []
        while not self.tokens.accept("]"):
            elements.append(self._element(type))
            if self.tokens.next.text != "]":
                self.tokens.expect(",")
        if len(elements) != type.size:
            raise self.tokens.error(f"{type} has {type.size} elements, got {len(elements)}")
        return np.array(elements, type.dtype.numpy).reshape(type.shape)

    def _element(self, type: TensorType) -> Any:
        match type.dtype.kind:
            case Kind.BOOL:
                return self.tokens.take("word", "true or false") == "true"
            case Kind.STRING:
                return json.loads(self.tokens.take("string"))
            case Kind.INT | Kind.UINT:
                return self.tokens.integer()
        return float(self.tokens.take("number"))


class _FunctionParser:
    """One `func`, into the module."""

    def __init__(self, tokens: TokenStream, module: Module) -> None:
        self.tokens = tokens
        self.module = module
        self.values: dict[str, Value] = {}

    def run(self) -> None:
        name = self.tokens.name("@", "the name of a function")
        if name in self.module.functions:
            raise self.tokens.error(f"function @{name} is defined twice")
        self.function = Function(name, self.module)
        self.tokens.expect("(")
        while not self.tokens.accept(")"):
            self._input()
            if self.tokens.next.text != ")":
                self.tokens.expect(",")
        self.tokens.expect("{")
        while not self.tokens.accept("return"):
            if self.tokens.accept("store"):
                self._store()
            else:
                self._node()
        self._outputs()
        self.tokens.expect("}")

    def _input(self) -> None:
        name = self._new_name()
        self.tokens.expect(":")
        self.values[name] = self.function.input(name, parse_type(self.tokens))

    def _new_name(self) -> str:
        name = self.tokens.name("%", "the name of a value")
        if name in self.values:
            raise self.tokens.error(f"%{name} is defined twice")
        return name

    def _value(self) -> Value:
        text = self.tokens.next.text
        name = self.tokens.name("%@", "a value")
        if text[0] == "%":
            found = self.values.get(name)
        else:
            found = self.module.constants.get(name) or self.module.states.get(name)
        if found is None:
            raise self.tokens.error(f"{text} is not defined")
        return found

    def _subgraph(self, name: str) -> Subgraph:
        if name not in self.module.functions:
            raise self.tokens.error(f"function @{name} is not defined before its use")
        return Subgraph(self.module.functions[name])

    def _node(self) -> None:
        names = [self._new_name()]
        while self.tokens.accept(","):
            names.append(self._new_name())
        self.tokens.expect("=")
        op_name = self.tokens.take("word", "an op")
        operands = self._operands()
        op = self._op(op_name)
        predicate = self._value() if self.tokens.accept("if") else None
        self.tokens.expect(":")
        types = [parse_type(self.tokens)]
        while self.tokens.accept(","):
            types.append(parse_type(self.tokens))
        origins = parse_origins(self.tokens)
        self._check_types(op, operands, names, types)
        node = Node(op, operands, types, [self.function.names.claim(n) for n in names], origins)
        node.predicate = predicate
        self.function.insert(node)
        self.values.update(zip(names, node.results, strict=True))

    def _operands(self) -> tuple[Value | None, ...]:
        self.tokens.expect("(")
        operands: list[Value | None] = []
        while not self.tokens.accept(")"):
            operands.append(None if self.tokens.accept("none") else self._value())
            if self.tokens.next.text != ")":
                self.tokens.expect(",")
        return tuple(operands)

    def _op(self, name: str) -> Op:
        cls = HostOp if name == HostOp.mnemonic else OPS.get(name)
        if cls is None:
            raise unknown_op(self.tokens, name, "op")
        attributes = parse_attributes(self.tokens, cls, self._subgraph)
        try:
            return cls(**attributes)
        except (TypeError, ValueError, AfterglowError) as error:
            raise self.tokens.error(f"{name}: {error}") from None

    def _check_types(
        self, op: Op, operands: tuple[Value | None, ...], names: list[str], types: list[TensorType]
    ) -> None:
        if op.states_types and len(names) == len(types):
            return
        try:
            inferred = infer_types(op, operands)
        except TypeRuleError as error:
            raise self.tokens.error(f"{op.mnemonic}: {error.what}") from None
        if inferred != tuple(types) or len(names) != len(types):
            rule = ", ".join(map(str, inferred))
            raise self.tokens.error(f"{op.mnemonic} gives {rule}, not {', '.join(map(str, types))}")

    def _store(self) -> None:
        value = self._value()
        self.tokens.expect("to")
        state = self._value()
        if not isinstance(state, Placeholder):
            raise self.tokens.error(f"{state.name} is not a state")
        self.function.update(state, value)

    def _outputs(self) -> None:
        while self.tokens.next.kind == "name":
            value = self._value()
            name = (
                json.loads(self.tokens.take("string")) if self.tokens.accept("as") else value.name
            )
            self.function.output(name, value)
            if not self.tokens.accept(","):
                break
