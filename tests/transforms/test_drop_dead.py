"""What nobody needs goes."""

import numpy as np

from afterglow.graph import Builder, Function, Module, parse_module, print_module
from afterglow.ops.elementwise import Neg
from afterglow.ops.functions import Exp
from afterglow.transforms.drop_dead import DropDead
from afterglow.types import TensorType
from afterglow.types.dtype import f32
from tests.transforms.rewriting import check_declines, check_rewrites


def test_a_chain_that_leads_nowhere_goes_with_its_constants() -> None:
    check_rewrites(
        DropDead(),
        before="""
            const @c : f32[] = [2.0]
            const @d : f32[] = [3.0]
            func @main(%x: f32[2]) {
              %a = add(%x, @c) : f32[2]
              %r = mul(%x, @d) : f32[2]
              %b = exp(%a) : f32[2]
              %e = sub(%b, %r) : f32[2]
              return %r
            }
        """,
        after="""
            const @d : f32[] = [3.0]
            func @main(%x: f32[2]) {
              %r = mul(%x, @d) : f32[2]
              return %r
            }
        """,
    )


def test_constants_go_at_once() -> None:
    module = parse_module(
        """
        const @c : f32[] = [2.0]
        const @d : f32[] = [3.0]
        func @main(%x: f32[2]) {
          %a = add(%x, @c) : f32[2]
          return %x, @d
        }
        """
    )
    assert DropDead().run(module.main)
    assert list(module.constants) == ["d"]
    assert not DropDead().run(module.main)


def test_what_is_returned_stored_or_a_predicate_stays() -> None:
    check_declines(
        DropDead(),
        """
        const @c : f32[2] = [2, 3]
        state @s : f32[2]
        func @main(%x: f32[2], %p: bool[]) {
          %n = not(%p) : bool[]
          %a = exp(%x) if %n : f32[2]
          %b = add(%x, @c) : f32[2]
          store %b to @s
          return %a
        }
        """,
    )


def test_functions_that_nobody_carries_go() -> None:
    module = Module()
    for name in ("main", "helper"):
        function = Function(name, module)
        b = Builder(function)
        x = function.input("x", TensorType(f32, (2,)))
        factor = b.constant(np.ones(2, np.float32), f"{name}.c")
        b.emit(Neg(), factor)
        function.output("y", b.emit(Exp(), x))
    assert DropDead().run(module.main)
    assert list(module.functions) == ["main"]
    assert not module.constants
    assert print_module(module).splitlines() == [
        "func @main(%x: f32[2]) {",
        "  %exp = exp(%x) : f32[2]",
        '  return %exp as "y"',
        "}",
    ]
