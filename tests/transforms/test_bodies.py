"""What bodies take from outside."""

import inspect

import numpy as np

from afterglow.graph import Module, parse_module, print_module, run_function, verify_module
from afterglow.transforms.bodies import SIMPLIFY_BODIES


def check(before: str, after: str) -> None:
    """The text of the module becomes another one, which means the same."""
    module = parse_module(before)
    reference = module.clone()
    assert SIMPLIFY_BODIES.run(module.main)
    verify_module(module)
    assert print_module(module).strip() == inspect.cleandoc(after)
    for seed in range(3):
        for have, want in zip(results(module, seed), results(reference, seed), strict=True):
            np.testing.assert_array_equal(have, want)


def results(module: Module, seed: int) -> tuple[np.ndarray, ...]:
    rng = np.random.default_rng(seed)
    inputs = [
        rng.integers(0, 4, p.type.shape).astype(p.type.dtype.numpy) for p in module.main.inputs
    ]
    return run_function(module.main, inputs)


def test_what_a_loop_does_not_change_is_captured() -> None:
    check(
        """
        func @body(%n: i64[], %w: f32[2], %x: f32[2], %v: f32[2]) {
          %y = mul(%x, %w) : f32[2]
          %go = less(%n, %n) : bool[]
          return %go, %w, %y, %v
        }
        func @main(%limit: i64[], %go: bool[], %w: f32[2], %x: f32[2], %v: f32[2]) {
          %r, %s, %t = loop(%limit, %go, %w, %x, %v) {body = @body, carried = 3}
            : f32[2], f32[2], f32[2]
          return %r, %s, %t
        }
        """,
        """
        func @body(%n: i64[], %x: f32[2], %w: f32[2]) {
          %y = mul(%x, %w) : f32[2]
          %go = less(%n, %n) : bool[]
          return %go, %y
        }
        func @main(%limit: i64[], %go: bool[], %w: f32[2], %x: f32[2], %v: f32[2]) {
          %s = loop(%limit, %go, %x, %w) {body = @body, carried = 1, iteration = 0, lengths = ()} : f32[2]
          return %w as "r", %s, %v as "t"
        }
        """,  # noqa: E501 - a printed node is one line
    )


def test_constants_move_into_a_scan() -> None:
    check(
        """
        const @w : f32[2] = [1, 2]
        func @body(%w: f32[2], %x: f32[2], %part: f32[2], %unused: f32[2]) {
          %y = mul(%x, %w) : f32[2]
          %z = add(%y, %part) : f32[2]
          return %w, %z
        }
        func @main(%x: f32[2], %p: f32[3, 2]) {
          %r, %s = scan(@w, %x, %p, %x) {body = @body, length = 3, carried = 2, scanned = 1}
            : f32[2], f32[2]
          return %r, %s
        }
        """,
        """
  const @w : f32[2] = [1.0, 2.0]
  func @body(%x: f32[2], %part: f32[2]) {
    %y = mul(%x, @w) : f32[2]
    %z = add(%y, %part) : f32[2]
    return %z
  }
  func @main(%x: f32[2], %p: f32[3, 2]) {
    %s = scan(%x, %p) {body = @body, length = 3, carried = 1, scanned = 1, reverse = false} : f32[2]
    return @w as "r", %s
  }""",
    )


def test_constants_move_into_both_branches() -> None:
    check(
        """
        const @c : f32[2] = [1, 2]
        func @first(%x: f32[2], %c: f32[2], %y: f32[2]) {
          return %c
        }
        func @second(%x: f32[2], %c: f32[2], %y: f32[2]) {
          %sum = add(%c, %y) : f32[2]
          return %sum
        }
        func @main(%go: bool[], %x: f32[2], %y: f32[2]) {
          %r = if(%go, %x, @c, %y) {then_branch = @first, else_branch = @second} : f32[2]
          return %r
        }
        """,
        """
        const @c : f32[2] = [1.0, 2.0]
        func @first(%y: f32[2]) {
          return @c
        }
        func @second(%y: f32[2]) {
          %sum = add(@c, %y) : f32[2]
          return %sum
        }
        func @main(%go: bool[], %x: f32[2], %y: f32[2]) {
          %r = if(%go, %y) {then_branch = @first, else_branch = @second} : f32[2]
          return %r
        }
        """,
    )


def test_bodies_that_others_carry_stay() -> None:
    module = parse_module(
        """
        const @c : f32[2] = [1, 2]
        func @same(%x: f32[2]) {
          return %x
        }
        func @main(%go: bool[]) {
          %r = if(%go, @c) {then_branch = @same, else_branch = @same} : f32[2]
          return %r
        }
        """
    )
    assert not SIMPLIFY_BODIES.run(module.main)
