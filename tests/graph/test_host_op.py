"""Host nodes: ops of a dialect in the graph IR, with types that are stated."""

from __future__ import annotations

import pytest

from afterglow.graph import (
    BOUNDARY,
    Builder,
    Function,
    HostOp,
    Module,
    Node,
    Subgraph,
    parse_module,
    print_module,
    verify_module,
)
from afterglow.ops.activation import Relu
from afterglow.support.errors import CompileError, ParseError
from afterglow.types import DynamicType, HostKind, HostType, TensorType
from afterglow.types.dtype import f32, i64
from afterglow.types.dynamic import UNKNOWN

TEXT = """\
const @w : f32[2] = [1.0, 2.0]
func @body(%a: f32[*], %outer: sequence) {
  return %a
}
func @main(%x: f32[batch, 3], %s: sequence, %o: optional, %m: map) {
  %b = host() {dialect = "", domain = "", name = "boundary", version = 0, overload = "", \
results = (true,), attributes = (), tensors = (), captured = (), bodies = (), functions = (), \
named = 0} : ?
  %n = host(%x) {dialect = "onnx", domain = "", name = "NonZero", version = 13, overload = "", \
results = (true,), attributes = (), tensors = (), captured = (), bodies = (), functions = (), \
named = 0} : i64[2, ?] from "find"
  %y, %z = host(%n, none, @w, %s) {dialect = "onnx", domain = "", name = "Loop", version = 16, \
overload = "", results = (true, false, true), attributes = (("k", "INT", 1), \
("f", "FLOATS", (0.5, inf)), ("t", "STRING", "a"), ("r", "INT", none, "ref")), \
tensors = ("w",), captured = (1,), bodies = ("body",), functions = (@body,), named = 0} \
: f32[?, "odd dim"], ?
  return %y, %z as "w"
}
"""


def test_host_nodes_and_their_types_print_and_parse() -> None:
    module = parse_module(TEXT)
    verify_module(module)
    assert print_module(module, origins=True) == TEXT
    assert print_module(module.clone(), origins=True) == TEXT


def test_a_copy_carries_copies_of_bodies() -> None:
    copy = parse_module(TEXT).clone()
    (node,) = (n for n in copy.main.nodes if len(n.results) == 2)
    assert isinstance(node.op, HostOp)
    assert node.op.functions == (Subgraph(copy.functions["body"]),)


def test_no_op_takes_a_value_of_an_unknown_shape() -> None:
    module = Module()
    main = Function("main", module)
    rows = main.input("rows", DynamicType(f32, (UNKNOWN, 4)))
    node = Node(BOUNDARY, (), (HostType(HostKind.ANY),), ("b",))
    main.insert(node)
    main.output("y", rows)
    verify_module(module)
    assert Builder(main).emit(Relu(), rows).type == rows.type  # of which nothing is asked
    with pytest.raises(CompileError, match="a value of type \\? is known only to the host"):
        Builder(main).emit(Relu(), node.result)


@pytest.mark.parametrize(
    ("type", "what"),
    [
        ("f32[?, ]", None),
        ("f32[*, 3]", "expected ']', found ','"),
        ("f32[-1]", "a shape has no negative extents, got (-1,)"),
        ("sequenc", "no such element type: 'sequenc'"),
    ],
)
def test_types_that_make_no_sense(type: str, what: str | None) -> None:
    text = f"func @main(%x: {type}) {{\n  return %x\n}}\n"
    if what is None:
        parse_module(text)
        return
    with pytest.raises(ParseError) as caught:
        parse_module(text)
    assert caught.value.what == what


def test_operands_are_told_apart() -> None:
    op = HostOp("onnx", "", "Loop", 16, tensors=("w",), captured=(2,), bodies=("b",), named=1)
    assert op.operand_counts(7) == (3, 4, 6)
    assert TensorType(i64, ()) == TensorType(i64, ())
