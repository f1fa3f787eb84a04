"""A small fast memory and a large slow one: residents, prefetches, waits."""

from __future__ import annotations

import inspect

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from afterglow.backends.interpreter import Machine
from afterglow.graph import Builder, Function, run_function
from afterglow.instr import (
    Alloc,
    Dealloc,
    OpInstr,
    Prefetch,
    Program,
    Stack,
    Wait,
    parse_program,
    print_program,
    verify_program,
)
from afterglow.lowering import select_instructions
from afterglow.memory import (
    Memories,
    MemoriesPlan,
    MemorySpace,
    form_stacks,
    plan_memories,
    remove_copies,
    share_buffers,
)
from afterglow.memory.checker import check_plan
from afterglow.ops.activation import Relu
from afterglow.ops.convolution import Conv
from afterglow.ops.elementwise import Add
from afterglow.ops.linear import MatMul
from afterglow.ops.movement import Reshape
from afterglow.ops.pooling import MaxPool
from afterglow.support.errors import ParseError, UnsupportedError, VerifyError
from afterglow.testing.graphs import functions_of_floats
from afterglow.types import TensorType
from afterglow.types.dtype import f32
from tests.transforms.rewriting import random_inputs

KIB = 1024


def memories(fast: int, *, computes_in_fast: bool = True) -> Memories:
    spaces = MemorySpace("fast", fast), MemorySpace("slow")
    return Memories(*spaces, computes_in_fast=computes_in_fast)


def lower(function: Function) -> Program:
    program = select_instructions(function)
    remove_copies(program)
    form_stacks(program)
    share_buffers(program)
    return program


def check_planned(function: Function, target: Memories) -> tuple[Program, MemoriesPlan]:
    """Plan, check in every way that there is, and run; the numbers must be right."""
    program = lower(function)
    plan = plan_memories(program, target)
    verify_program(program)
    text = print_program(program)
    assert not check_plan(text)
    assert print_program(parse_program(text)) == text
    assert target.fast.capacity is not None
    assert most_live(program, "fast") <= plan.fast.arena_bytes <= target.fast.capacity
    inputs = random_inputs(function)
    outputs = Machine(program).run(inputs, {})
    for have, want in zip(outputs, run_function(function, inputs), strict=True):
        np.testing.assert_allclose(have, want, rtol=2e-3, atol=2e-4)
    return program, plan


def most_live(program: Program, memory: str) -> int:
    """The most bytes that are allocated in a memory at once."""
    live = most = 0
    for step in program.body:
        match step:
            case Alloc(buffer) if buffer.memory == memory:
                live += buffer.type.nbytes
            case Dealloc(buffer) if buffer.memory == memory:
                live -= buffer.type.nbytes
        most = max(most, live)
    return most


def overlapped(program: Program) -> int:
    """How many transfers have a computation between their prefetch and their wait."""
    begun: dict[Prefetch, int] = {}
    computed = count = 0
    for step in program.body:
        match step:
            case Prefetch():
                begun[step] = computed
            case Wait(transfer):
                count += begun[transfer] < computed
            case OpInstr() | Stack():
                computed += 1
    return count


def weights(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).normal(0, 0.1, shape).astype(np.float32)


def perceptron(layers: int, width: int) -> Function:
    f = Function("main")
    b = Builder(f)
    x = f.input("x", TensorType(f32, (8, width)))
    for layer in range(layers):
        x = b.emit(MatMul(), x, b.constant(weights(width, width), f"w{layer}"))
        x = b.emit(Relu(), b.emit(Add(), x, b.constant(weights(width), f"b{layer}")))
    f.output("y", x)
    return f


def convolutional_network() -> Function:
    f = Function("main")
    b = Builder(f)
    x = f.input("x", TensorType(f32, (1, 16, 16, 8)))
    for layer, channels in enumerate((16, 16, 32)):
        weight = b.constant(weights(channels, 3, 3, x.type.shape[-1]), f"w{layer}")
        x = b.emit(Relu(), b.emit(Conv((1, 1), (1, 1, 1, 1), (1, 1), 1), x, weight))
        x = b.emit(MaxPool((2, 2), (2, 2), (0, 0, 0, 0), (1, 1), False), x)
    flat = b.emit(Reshape((1, x.type.size)), x)
    f.output("y", b.emit(MatMul(), flat, b.constant(weights(x.type.size, 10), "head")))
    return f


def test_the_weights_of_a_perceptron_pass_through_64_kib() -> None:
    program, plan = check_planned(perceptron(layers=6, width=80), memories(64 * KIB))
    assert sum(constant.type.nbytes for constant in program.constants) > 128 * KIB
    assert plan.transfers == sum(isinstance(step, Prefetch) for step in program.body)
    assert plan.overlapped == overlapped(program) >= 5


def test_a_convolutional_network_runs_in_64_kib() -> None:
    program, plan = check_planned(convolutional_network(), memories(64 * KIB))
    assert plan.overlapped == overlapped(program) > 0
    for step in program.body:
        if isinstance(step, (OpInstr, Stack)):
            assert all(buffer.root.memory == "fast" for _, buffer in step.accesses())


def test_what_must_wait_long_goes_to_slow_memory_where_the_fast_one_is_full() -> None:
    f = Function("main")
    b = Builder(f)
    first = b.emit(Relu(), f.input("x", TensorType(f32, (8, 80))))
    x = first
    for rows, columns in ((80, 96), (96, 96), (96, 80)):
        x = b.emit(MatMul(), x, b.constant(weights(rows, columns), "w"))
    f.output("y", b.emit(Add(), x, first))
    _, roomy = check_planned(f, memories(64 * KIB))
    _, tight = check_planned(f, memories(44 * KIB))
    assert (roomy.slow.arena_bytes, tight.slow.arena_bytes) == (0, 2560)


def test_without_a_need_nothing_is_moved() -> None:
    program, plan = check_planned(
        convolutional_network(), memories(12 * KIB, computes_in_fast=False)
    )
    assert plan.transfers == 0
    assert {buffer.memory for buffer in program.arena()} == {"fast", "slow"}


def test_what_is_used_most_lies_in_fast_memory() -> None:
    program = parse_program("""
        program @main {
          input %x : f32[16]
          output %y : f32[16]
          %often = alloc f32[16]
          %once = alloc f32[16]
          softmax out %once, in %x {axis = 0}
          softmax out %often, in %x {axis = 0}
          add inout %often, in %often, in %often
          add inout %often, in %often, in %often
          add out %y, in %often, in %once
        }
    """)
    plan_memories(program, memories(64, computes_in_fast=False))
    assert {b.name: b.memory for b in program.arena()} == {"often": "fast", "once": "slow"}


def test_transfers_as_text() -> None:
    program = parse_program("""
        program @main {
          input %x : f32[16]
          output %y : f32[16]
          const @w : f32[16]
          const @v : f32[16]
          %a = alloc f32[16]
          add out %a, in %x, in @w
          add out %y, in %a, in @v
        }
    """)
    plan_memories(program, memories(256))
    printed = print_program(program).splitlines()
    assert "\n".join(line.split(" ;")[0].rstrip() for line in printed) == inspect.cleandoc("""
        program @main arena fast 256, arena slow 0 {
          input %x : f32[16]
          output %y : f32[16]
          const @w : f32[16]
          const @v : f32[16]
          %x.fast = alloc f32[16] in fast at 64
          prefetch out %x.fast, in %x
          %w.fast = alloc f32[16] in fast at 128
          prefetch out %w.fast, in @w
          %v.fast = alloc f32[16] in fast at 192
          prefetch out %v.fast, in @v
          wait %x.fast
          wait %w.fast
          %a = alloc f32[16] in fast at 0
          add out %a, in %x.fast, in %w.fast
          dealloc %x.fast
          dealloc %w.fast
          wait %v.fast
          %y.fast = alloc f32[16] in fast at 64
          add out %y.fast, in %a, in %v.fast
          dealloc %v.fast
          dealloc %a
          copy out %y, in %y.fast
          dealloc %y.fast
        }
    """)


def test_an_instruction_may_need_more_than_there_is() -> None:
    with pytest.raises(UnsupportedError) as caught:
        plan_memories(lower(perceptron(layers=1, width=80)), memories(16 * KIB))
    message = caught.value.what
    assert message == "an instruction needs 31040 bytes of memory 'fast', which has 16384"


QUICK = settings(
    max_examples=200,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)


@QUICK
@given(functions_of_floats(), st.sampled_from([1024, 4096, 65536]), st.booleans())
def test_random_programs_compute_the_same(function: Function, fast: int, moved: bool) -> None:
    try:
        check_planned(function, memories(fast, computes_in_fast=moved))
    except UnsupportedError:
        assert moved


HEAD = """
program @main {
  output %y : f32[4]
  const @w : f32[4]
  %a = alloc f32[4]
  prefetch out %a, in @w
"""


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("exp out %y, in %a\nwait %a\n", "%a is read before it is written"),
        ("exp out %a, in @w\nwait %a\n", "%a is used while %a is being prefetched"),
        ("dealloc %a\n", "%a is used while %a is being prefetched"),
        ("wait %a\nwait %a\n", "nothing is on its way to %a"),
        ("exp out %y, in @w\n", "nobody waits for %a"),
    ],
)
def test_what_is_on_its_way_is_left_alone(body: str, message: str) -> None:
    with pytest.raises(VerifyError) as caught:
        verify_program(parse_program(HEAD + body + "}"))
    assert caught.value.what == message


def test_a_source_is_not_changed_while_it_is_fetched() -> None:
    with pytest.raises(VerifyError) as caught:
        verify_program(
            parse_program("""
                program @main {
                  input %x : f32[4]
                  %s = alloc f32[4]
                  exp out %s, in %x
                  %a = alloc f32[4]
                  prefetch out %a, in %s
                  exp inout %s, in %s
                  wait %a
                }
            """)
        )
    assert caught.value.what == "%s is used while %a is being prefetched"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("program @m {\n %a = alloc f32[]\n wait %a\n}", "nothing is prefetched into %a"),
        ("program @m arena fast {\n}", "expected an integer, found '{'"),
        ("program @m arena fast 1, arena 2 {\n}", "expected the name of an arena, found '2'"),
    ],
)
def test_texts_that_are_wrong(text: str, message: str) -> None:
    with pytest.raises(ParseError) as caught:
        parse_program(text)
    assert caught.value.what == message


def test_each_buffer_lies_in_an_arena_that_there_is() -> None:
    with pytest.raises(VerifyError) as caught:
        verify_program(parse_program("program @m arena fast 64 {\n %a = alloc f32[] at 0\n}"))
    assert caught.value.what == "%a lies in no arena"


def test_a_missing_wait_gives_wrong_numbers() -> None:
    program = parse_program(
        """
        program @main arena fast 64 {
          output %y : f32[4]
          const @w : f32[4]
          %a = alloc f32[4] in fast at 0
          prefetch out %a, in @w
          wait %a
          exp out %y, in %a
        }
        """,
        {"w": np.zeros(4, np.float32)},
    )
    assert Machine(program).run([], {})[0].tolist() == [1.0] * 4
    program.body = [step for step in program.body if not isinstance(step, Wait)]
    assert np.isnan(Machine(program).run([], {})[0]).all()
