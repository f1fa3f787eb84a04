"""The checker on random programs: good plans have no findings, spoilt ones do."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

import afterglow as ag
from afterglow.driver.options import Options
from afterglow.driver.stages import Stages
from afterglow.graph import Function
from afterglow.instr import (
    Alloc,
    Buffer,
    Dealloc,
    Instr,
    Program,
    Region,
    Stack,
    parse_program,
    print_program,
)
from afterglow.memory.checker import check_plan
from afterglow.testing.graphs import functions_of_floats

QUICK = settings(
    max_examples=300,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
SPOILT = settings(QUICK, max_examples=150)
THOROUGH = settings(QUICK, max_examples=10_000)
DIGITS = Path(__file__).parents[2] / "examples" / "digits" / "digits.onnx"

WAYS = [
    Options(backend=backend, optimize=optimize)
    for backend in ("interpreter", "primitives")
    for optimize in (True, False)
]


def planned(function: Function, options: Options) -> str:
    module = function.module.clone()
    return print_program(Stages(options).finish(module).program)


@QUICK
@given(functions_of_floats(), st.sampled_from(WAYS))
def test_nothing_is_wrong_with_our_plans(function: Function, options: Options) -> None:
    assert not check_plan(planned(function, options))


@pytest.mark.slow
@THOROUGH
@given(functions_of_floats(most_steps=25), st.sampled_from(WAYS))
def test_nothing_is_wrong_with_many_plans(function: Function, options: Options) -> None:
    assert not check_plan(planned(function, options))


@pytest.mark.parametrize("options", WAYS, ids=lambda way: f"{way.backend}-{way.optimize}")
def test_nothing_is_wrong_with_the_plan_of_the_example(options: Options) -> None:
    module = ag.import_model(str(DIGITS))
    assert not check_plan(print_program(Stages(options).finish(module).program))


@st.composite
def programs(draw: st.DrawFn) -> Program:
    """A planned program that uses its arena."""
    function = draw(functions_of_floats())
    program = parse_program(planned(function, draw(st.sampled_from(WAYS))))
    assume(any(buffer.type.nbytes for buffer in program.arena()))
    return program


def lifetimes(program: Program) -> dict[Buffer, range]:
    start = {step.buffer: i for i, step in enumerate(program.body) if isinstance(step, Alloc)}
    end = {step.buffer: i for i, step in enumerate(program.body) if isinstance(step, Dealloc)}
    return {buffer: range(start[buffer], end[buffer]) for buffer in start}


def writers(program: Program) -> Iterator[tuple[Instr, Instr, Buffer]]:
    """Every instruction, the stack that it is in, or itself, and what it alone writes."""
    members = [
        (member, step)
        for step in program.body
        for member in (step.body if isinstance(step, Stack) else (step,))
    ]
    accesses = [
        (member, step, access, b) for member, step in members for access, b in member.accesses()
    ]
    for member, step, access, buffer in accesses:
        others = [a for m, _, a, b in accesses if b.root is buffer.root and m is not member]
        needed = buffer.root.region is Region.OUTPUT or any(a.reads for a in others)
        alone = not any(a.writes for a in others) and buffer.root.region is not Region.STATE
        if access.writes and alone and needed and buffer.type.size:
            yield member, step, buffer


@SPOILT
@given(programs(), st.data())
def test_a_buffer_moved_onto_a_live_one_is_found(program: Program, data: st.DataObject) -> None:
    lives = lifetimes(program)
    pairs = [
        (moved, other)
        for moved, life in lives.items()
        for other, its in lives.items()
        if moved is not other and range(max(life[0], its[0]), min(life[-1], its[-1]) + 1)
        if moved.type.nbytes and other.type.nbytes
    ]
    assume(pairs)
    moved, other = data.draw(st.sampled_from(pairs))
    width = moved.type.dtype.itemsize
    assert other.address is not None
    last = (other.address + other.type.nbytes - 1) // width
    first = -(-max(other.address - moved.type.nbytes + 1, 0) // width)
    moved.address = data.draw(st.integers(first, last)) * width
    assert any("overlaps" in finding.text for finding in check_plan(print_program(program)))


@SPOILT
@given(programs(), st.data())
def test_a_missing_instruction_is_found(program: Program, data: st.DataObject) -> None:
    candidates = list(writers(program))
    assume(candidates)
    member, step, _ = data.draw(st.sampled_from(candidates))
    if isinstance(step, Stack):
        step.body = tuple(other for other in step.body if other is not member)
    else:
        program.body.remove(step)
    assert any("written" in finding.text for finding in check_plan(print_program(program)))


@SPOILT
@given(programs())
def test_an_arena_one_byte_too_small_is_found(program: Program) -> None:
    ends = [(b.address or 0) + b.type.nbytes for b in program.arena()]
    program.arena_bytes = max(ends) - 1
    assert any("of an arena of" in finding.text for finding in check_plan(print_program(program)))


@SPOILT
@given(programs(), st.data())
def test_a_buffer_freed_too_early_is_found(program: Program, data: st.DataObject) -> None:
    index = data.draw(
        st.sampled_from(
            [
                i
                for i, step in enumerate(program.body)
                if isinstance(step, Dealloc) and not step.buffer.is_view
            ]
        )
    )
    freed = program.body[index]
    assert isinstance(freed, Dealloc)
    uses = [
        i
        for i, step in enumerate(program.body)
        if any(buffer.root is freed.buffer for _, buffer in step.accesses())
    ]
    program.body.insert(uses[-1], program.body.pop(index))
    texts = [finding.text for finding in check_plan(print_program(program))]
    assert any("after it was freed" in text or "is freed, but" in text for text in texts)
