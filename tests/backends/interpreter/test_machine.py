"""The interpreter on planned memory."""

from __future__ import annotations

import numpy as np
import pytest

import afterglow.ops  # noqa: F401  fills the catalogue
from afterglow.backends.interpreter import Machine
from afterglow.graph import parse_function, run_function
from afterglow.instr import Program, verify_program
from afterglow.lowering import select_instructions
from afterglow.memory import place_lifetimes, plan_memory, remove_copies
from afterglow.runtime.buffers import HostBuffer
from afterglow.support.errors import UsageError
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


def test_a_program_for_ranges_runs_at_the_extents_of_its_inputs() -> None:
    text = """
        dim b : 1..4
        dim s : 1..9
        func @main(%x: f32[b, s], %y: f32[s]) {
          %e = exp(%x) : f32[b, s]
          %z = add(%e, %y) : f32[b, s]
          %twice = concat(%z, %x) {axis = 1} : f32[b, 2*s]
          %flat = reshape(%twice) {shape = (2*b*s,)} : f32[2*b*s]
          return %flat
        }
    """
    machine = Machine(planned(text))
    for b, s in ((4, 9), (1, 1), (2, 5), (4, 9)):
        x, y = np.ones((b, s), np.float32), np.arange(s, dtype=np.float32)
        (got,) = machine.run([x, y], {})
        want = np.concatenate([np.exp(x) + y, x], 1).reshape(-1)
        np.testing.assert_array_equal(got, want)


def test_programs_for_the_last_extents_are_kept() -> None:
    text = "dim s : 1..99\nfunc @main(%x: f32[s]) {\n  %y = exp(%x) : f32[s]\n  return %y\n}"
    machine = Machine(planned(text))
    inputs = [[np.ones(s, np.float32)] for s in range(1, 20)]
    kept = machine.bound(inputs[-1], {})
    assert machine.bound(inputs[-1], {}) is kept
    for arrays in inputs:
        machine.run(arrays, {})
    assert machine.bound(inputs[-1], {}) is not kept
    assert machine.bound(inputs[-2], {}) is machine.bound(inputs[-2], {})


def test_what_the_inputs_contradict_is_refused() -> None:
    text = "dim s : 2..4\nfunc @main(%x: f32[s], %y: f32[s]) {\n  return %x, %y\n}"
    machine = Machine(planned(text))
    with pytest.raises(UsageError, match=r"'s' of input 'x' is 5, out of its bounds 2\.\.4"):
        machine.run([np.ones(5, np.float32), np.ones(5, np.float32)], {})
    with pytest.raises(UsageError, match="'s' is 3 in axis 0 of input 'y', but 2 in axis 0"):
        machine.run([np.ones(2, np.float32), np.ones(3, np.float32)], {})
