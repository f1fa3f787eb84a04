"""Choices that are made when compiling."""

import inspect

import pytest

from afterglow.graph import parse_module, print_function, verify_module
from afterglow.transforms.drop_dead import DropDead
from afterglow.transforms.inline_branches import INLINE_BRANCHES
from tests.transforms.rewriting import assert_same_meaning, check_declines

BRANCHES = """
    const @c : f32[] = [2]
    func @larger(%x: f32[2], %y: f32[2]) {
      %a = mul(%x, @c) : f32[2]
      %b = add(%a, %y) : f32[2]
      return %b, %x
    }
    func @smaller(%x: f32[2], %y: f32[2]) {
      %a = exp(%x) : f32[2]
      return @d, %a
    }
"""
CHOICE = "{then_branch = @larger, else_branch = @smaller}"


TRUE = """
    func @main(%p: f32[2], %q: f32[2]) {
      %a = mul(%p, @c) : f32[2]
      %u = add(%a, %q) : f32[2]
      return %u, %p as "v"
    }
"""
FALSE = """
    func @main(%p: f32[2], %q: f32[2]) {
      %v = exp(%p) : f32[2]
      return @d as "u", %v
    }
"""


@pytest.mark.parametrize(("condition", "after"), [("true", TRUE), ("false", FALSE)])
def test_a_known_choice_is_made_at_once(condition: str, after: str) -> None:
    module = parse_module(
        f"""
        const @known : bool[] = [{condition}]
        const @d : f32[2] = [5, 6]
        {BRANCHES}
        func @main(%p: f32[2], %q: f32[2]) {{
          %u, %v = if(@known, %p, %q) {CHOICE} : f32[2], f32[2]
          return %u, %v
        }}
        """
    )
    reference = module.clone()
    assert INLINE_BRANCHES.run(module.main)
    assert DropDead().run(module.main)
    verify_module(module)
    assert list(module.functions) == ["main"]
    assert print_function(module.main) == inspect.cleandoc(after)
    assert_same_meaning(reference.main, module.main)


def test_an_open_choice_stays() -> None:
    check_declines(
        INLINE_BRANCHES,
        inspect.cleandoc(
            f"""
            const @d : f32[2] = [5, 6]
            {BRANCHES}
            func @main(%t: bool[], %p: f32[2], %q: f32[2]) {{
              %u, %v = if(%t, %p, %q) {CHOICE} : f32[2], f32[2]
              return %u, %v
            }}
            """
        ),
    )
