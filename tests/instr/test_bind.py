"""Programs for ranges as they are in one run."""

from __future__ import annotations

import inspect

import afterglow.ops  # noqa: F401  fills the catalogue
from afterglow.graph import Subgraph, parse_module
from afterglow.instr import OpInstr, parse_program, print_program
from afterglow.instr.bind import bind_program

RANGED = """
    program @main arena 8192 {
      dim b : 1..4
      dim s : 1..512
      input %x : f32[b, s] donated
      output %y : f32[b, s + 1]
      %h = alloc f32[b, s] at 64
      stack plan rows {block = min(8, s)} needs {cost = 1.0} {
        %t = local f32[b, s]
        exp out %t, in %x
        relu out %h, in %t
      }
      %left = view %y[0:b, 0:s] : f32[b, s]
      copy out %left, in %h
      %right = view %y {start = s, strides = (s + 1, 1)} : f32[b, 1]
      fill out %right {shape = (b, 1), value = 0.0, dtype = f32}
      dealloc %h
    }
"""


def without_comments(text: str) -> str:
    return "\n".join(line.split(" ;")[0].rstrip() for line in text.splitlines())


def test_every_extent_is_a_number_and_every_address_stays() -> None:
    bound = bind_program(parse_program(RANGED), {"b": 2, "s": 5})
    assert without_comments(print_program(bound)) == inspect.cleandoc("""
        program @main arena 8192 {
          input %x : f32[2, 5] donated
          output %y : f32[2, 6]
          %h = alloc f32[2, 5] at 64
          stack plan rows {block = 5} needs {cost = 1.0} {
            %t = local f32[2, 5]
            exp out %t, in %x
            relu out %h, in %t
          }
          %left = view %y[0:2, 0:5] : f32[2, 5]
          copy out %left, in %h
          %right = view %y[0:2, 5:6] : f32[2, 1]
          fill out %right {shape = (2, 1), value = 0.0, dtype = f32}
          dealloc %h
        }
    """)


def test_a_program_without_dimensions_is_itself() -> None:
    program = parse_program("program @main {\n}")
    assert bind_program(program, {}) is program


def test_prefetches_stay_with_those_who_wait_for_them() -> None:
    text = """
        program @main arena fast 64, arena slow 64 {
          dim s : 1..4
          input %x : f32[s]
          output %y : f32[s]
          %a = alloc f32[s] in fast at 0
          prefetch out %a, in %x
          wait %a
          exp out %y, in %a
          dealloc %a
        }
    """
    bound = bind_program(parse_program(text), {"s": 3})
    assert "%a = alloc f32[3] in fast at 0" in print_program(bound)
    assert "wait %a" in print_program(bound)


def test_functions_that_ops_carry_are_bound_too() -> None:
    module = parse_module("""
        dim s : 1..4
        func @same(%x: f32[s]) {
          return %x
        }
    """)
    text = """
        program @main {
          dim s : 1..4
          input %p : bool[]
          input %x : f32[s]
          output %y : f32[s]
          if out %y, in %p, in %x {then_branch = @same, else_branch = @same}
        }
    """
    functions = {"same": Subgraph(module.functions["same"])}
    (step,) = bind_program(parse_program(text, functions=functions), {"s": 3}).body
    assert isinstance(step, OpInstr)
    (body,) = {step.op.then_branch.function, step.op.else_branch.function}  # type: ignore[attr-defined]  # it is an If
    assert str(body.inputs[0].type) == "f32[3]"
