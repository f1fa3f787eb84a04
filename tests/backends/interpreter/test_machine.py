"""The interpreter on planned memory."""

from __future__ import annotations

import numpy as np

import afterglow.ops  # noqa: F401  fills the catalogue
from afterglow.backends.interpreter import Machine
from afterglow.graph import parse_function, run_function
from afterglow.instr import Program, verify_program
from afterglow.lowering import select_instructions
from afterglow.memory import place_lifetimes, plan_memory, remove_copies
from afterglow.runtime.buffers import HostBuffer
from afterglow.types import TensorType
from afterglow.types.dtype import i64

PREDICATED = """
func @main(%p: bool[], %x: f32[3]) {
  %needed = exp(%x) if %p : f32[3]
  %zero = sub(%x, %x) : f32[3]
  %y = where(%p, %needed, %zero) : f32[3]
  return %y
}
"""


def planned(text: str) -> Program:
    program = select_instructions(parse_function(text))
    remove_copies(program)
    place_lifetimes(program)
    plan_memory(program)
    verify_program(program)
    return program


def test_a_node_is_skipped_where_its_predicate_is_false() -> None:
    machine = Machine(planned(PREDICATED))
    x = np.array([1, 2, 3], np.float32)
    (y,) = machine.run([np.array(True), x], {})
    np.testing.assert_array_equal(y, np.exp(x))
    assert machine.skipped == 0
    (y,) = machine.run([np.array(False), x], {})
    np.testing.assert_array_equal(y, np.zeros(3))
    assert machine.skipped == 1


def test_results_are_right_when_predicates_are_ignored() -> None:
    machine = Machine(planned(PREDICATED), honour_predicates=False)
    x = np.array([1, 2, 3], np.float32)
    (y,) = machine.run([np.array(False), x], {})
    np.testing.assert_array_equal(y, np.zeros(3))
    assert machine.skipped == 0


def test_state_lasts_from_run_to_run() -> None:
    machine = Machine(
        planned("""
            state @count : i64[]
            const @one : i64[] = [1]
            func @main() {
              %next = add(@count, @one) : i64[]
              store %next to @count
              return %next
            }
        """)
    )
    states = {"count": HostBuffer(TensorType(i64, ()))}
    assert [int(machine.run([], states)[0]) for _ in range(3)] == [1, 2, 3]
    assert states["count"].array == 3


def test_strings_zero_sizes_and_scalars_run() -> None:
    text = """
        func @main(%s: str[2], %e: f32[0, 3], %x: f32[]) {
          %t = reshape(%s) {shape = (2, 1)} : str[2, 1]
          %f = exp(%e) : f32[0, 3]
          %y = exp(%x) : f32[]
          return %t, %f, %y
        }
    """
    inputs = [np.array(["a", "b"], object), np.zeros((0, 3), np.float32), np.float32(0).reshape(())]
    got = Machine(planned(text)).run(inputs, {})
    for have, want in zip(got, run_function(parse_function(text), inputs), strict=True):
        np.testing.assert_array_equal(have, want)
