"""Gradients of control flow: scans, branches, and loops that are scans."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

from afterglow.autodiff import gradients
from afterglow.graph import Builder, Constant, Function, parse_module, print_module, verify_module
from afterglow.ops.control import Loop, Scan
from afterglow.ops.linear import MatMul
from afterglow.ops.recurrent import RNN
from afterglow.support.errors import UnsupportedError
from afterglow.types import TensorType
from afterglow.types.dtype import f64
from tests.autodiff.differences import assert_gradients

SCAN = """
func @step(%h: f64[2, 3], %n: f64[], %x: f64[2, 3], %w: f64[3, 3], %v: f64[3], %s: f64[]) {
  %turned = transpose(%w) {perm = (1, 0)} : f64[3, 3]
  %m = matmul(%h, %turned) : f64[2, 3]
  %sum = add(%m, %x) : f64[2, 3]
  %scaled = mul(%sum, %v) : f64[2, 3]
  %t = tanh(%scaled) : f64[2, 3]
  %z = sin(%m) : f64[2, 3]
  %next = mul(%n, %s) : f64[]
  %new = mul(%t, %n) : f64[2, 3]
  return %new, %next, %z, %new as "all"
}
func @main(%h: f64[2, 3], %n: f64[], %x: f64[4, 2, 3], %w: f64[3, 3], %v: f64[3], %s: f64[]) {
  %a, %b, %c, %d = scan(%h, %n, %x, %w, %v, %s)
    {body = @step, length = 4, carried = 2, scanned = 1, reverse = REVERSE}
    : f64[2, 3], f64[], f64[4, 2, 3], f64[4, 2, 3]
  return %a, %b, %c, %d
}
"""
NESTED = """
const @w : f64[3] = [0.5, -0.25, 2.0]
func @up(%x: f64[3]) {
  %y = mul(%x, @w) : f64[3]
  return %y
}
func @down(%x: f64[3]) {
  %y = sin(%x) : f64[3]
  return %y
}
func @step(%h: f64[3], %x: f64[3], %c: bool[]) {
  %chosen = if(%c, %h) {then_branch = @up, else_branch = @down} : f64[3]
  %new = mul(%chosen, %x) : f64[3]
  return %new
}
func @main(%c: bool[2], %h: f64[3], %x: f64[3, 3]) {
  %slice = slice(%c) {starts = (0,), extents = (1,), steps = (1,)} : bool[1]
  %one = reshape(%slice) {shape = ()} : bool[]
  %y = scan(%h, %x, %one) {body = @step, length = 3, carried = 1, scanned = 1} : f64[3]
  return %y
}
"""
IF = """
func @up(%x: f64[3], %y: f64[3]) {
  %p = mul(%x, %y) : f64[3]
  return %p, %x
}
func @down(%x: f64[3], %y: f64[3]) {
  %p = exp(%x) : f64[3]
  return %p, %p as "again"
}
func @main(%c: bool[], %x: f64[3], %y: f64[3]) {
  %a, %b = if(%c, %x, %y) {then_branch = @up, else_branch = @down} : f64[3], f64[3]
  return %a, %b
}
"""
LOOP = """
const @limit : i64[] = [3]
const @true : bool[] = [true]
func @step(%i: i64[], %x: f64[2], %w: f64[2]) {
  %number = cast(%i) {dtype = f64} : f64[]
  %p = mul(%x, %w) : f64[2]
  %sum = add(%p, %number) : f64[2]
  %new = sin(%sum) : f64[2]
  return @true, %new
}
func @main(%x: f64[2], %w: f64[2]) {
  %y = loop(@limit, @true, %x, %w) {body = @step, carried = 1} : f64[2]
  return %y
}
"""


def function(text: str) -> Function:
    return parse_module(text).main


def check(text: str, order: int = 2, flag: bool = True) -> Function:
    """The gradients of a function are what differences say."""
    rng = np.random.default_rng(2)
    f = function(text)
    inputs = [
        rng.uniform(-1, 1, x.type.shape) if x.type.dtype.is_float else np.full(x.type.shape, flag)
        for x in f.inputs
    ]
    assert_gradients(f, inputs, order=order)
    verify_module(f.module)
    return f


@pytest.mark.parametrize("reverse", ["false", "true"])
def test_the_gradient_of_a_scan(reverse: str) -> None:
    check(SCAN.replace("REVERSE", reverse))


def test_the_gradient_of_a_captured_matrix_is_one_product_after_the_scan() -> None:
    f = check(SCAN.replace("REVERSE", "false"), order=1)
    backward = [node.op for node in f.nodes if isinstance(node.op, Scan)][-1]
    products = [node for node in f.nodes if isinstance(node.op, MatMul)]
    inner = [node for node in backward.body.function.nodes if isinstance(node.op, MatMul)]
    assert [node.operands[0].type.shape for node in products] == [(8, 3)]  # type: ignore[union-attr]
    assert len(inner) == 1, print_module(f.module)


def test_a_scan_is_not_computed_again() -> None:
    f = check(SCAN.replace("REVERSE", "false"), order=1)
    scans = [node for node in f.nodes if isinstance(node.op, Scan)]
    assert len(scans) == 2


def test_a_scan_without_steps_has_the_gradients_of_its_states() -> None:
    check(SCAN.replace("REVERSE", "false").replace("[4, 2, 3]", "[0, 2, 3]").replace("= 4", "= 0"))


@pytest.mark.parametrize("flag", [True, False])
def test_the_gradient_of_a_branch(flag: bool) -> None:
    check(IF, flag=flag)


@pytest.mark.parametrize("flag", [True, False])
def test_the_gradient_of_a_branch_in_a_scan(flag: bool) -> None:
    check(NESTED, flag=flag)


def test_the_gradient_of_a_constant_that_only_a_branch_in_a_scan_reads() -> None:
    f = function(NESTED)
    w = f.module.constants["w"]
    (grad,) = gradients(Builder(f), [f.outputs[0].value], [w])
    assert grad is not None
    f.output("dw", grad)
    verify_module(f.module)
    bodies = [g for g in f.module.functions.values() if "gradient" in g.name]
    assert not any(isinstance(v, Constant) and v is w for g in bodies for v in g.constants())


def test_the_gradient_of_a_loop_that_runs_a_known_number_of_times() -> None:
    f = check(LOOP)
    assert not any(isinstance(node.op, Loop) for node in f.nodes)


def test_a_loop_that_data_end_is_refused() -> None:
    f = function(
        LOOP.replace("return @true, %new", "return %go, %new").replace(
            "  %new =", "  %go = less(%number, %number) : bool[]\n  %new ="
        )
    )
    with pytest.raises(UnsupportedError) as caught:
        gradients(Builder(f), [f.outputs[0].value], f.inputs)
    assert str(caught.value) == inspect.cleandoc("""
        error: loop has no gradient, as data decide how often it runs, and node 'y' needs one
          in function @main, node %y
            > %y = loop(@limit, @true, %x, %w) {body = @step, carried = 1, iteration = 0, lengths = ()}
              on the path y <- x
          help: compute it from ops that have one, or differentiate only what comes after it
    """)  # noqa: E501 - a printed node is one line


def test_a_layer_whose_lowering_is_a_scan_is_not_computed_twice() -> None:
    f = Function("main")
    operands = [f.input("x", TensorType(f64, shape)) for shape in ((3, 2, 5), (4, 5), (4, 4))]
    b = Builder(f)
    y, h = b.emit_all(RNN(), *operands)
    for grad in gradients(b, [y], operands):
        assert grad is not None
        f.output(grad.name, grad)
    f.output("h", h)
    verify_module(f.module)
    assert [node.op.mnemonic for node in f.nodes].count("scan") == 2
    assert not any(isinstance(node.op, RNN) for node in f.nodes)


def test_a_loop_whose_values_grow_is_refused() -> None:
    f = function("dim i : 0..2" + LOOP.replace("carried = 1}", "carried = 1, iteration = i}"))
    with pytest.raises(UnsupportedError) as caught:
        gradients(Builder(f), [f.outputs[0].value], f.inputs)
    reason = "as values that it carries grow"
    assert caught.value.what == f"loop has no gradient, {reason}, and node 'y' needs one"
