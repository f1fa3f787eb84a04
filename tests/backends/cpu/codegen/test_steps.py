"""Steps of several lanes: what runs side by side, how it is divided, and that bits stay."""

from __future__ import annotations

from itertools import combinations, pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

import afterglow as ag
from afterglow.backends.cpu import Target
from afterglow.backends.cpu.codegen import calls as calls_module
from afterglow.backends.cpu.codegen import steps as steps_module
from afterglow.backends.cpu.codegen.build import build
from afterglow.backends.cpu.codegen.calls import Call
from afterglow.backends.cpu.codegen.generate import generate
from afterglow.backends.cpu.codegen.independence import independent_runs
from afterglow.backends.cpu.codegen.step_names import step_names
from afterglow.backends.cpu.codegen.steps import PARTS, Step, join_calls
from afterglow.backends.cpu.micro.cost import CHUNK
from afterglow.backends.cpu.micro.kernel import KernelFunction
from afterglow.driver.options import Options
from afterglow.driver.stages import Stages
from afterglow.graph import Builder, Function, Value
from afterglow.instr import Buffer, Instr, OpInstr, Program, Region, parse_program
from afterglow.instr.overlap import bytes_of
from afterglow.ops.functions import Exp, Tanh
from afterglow.ops.linear import MatMul
from afterglow.ops.softmax import Softmax
from afterglow.runtime.native import program as native_module
from afterglow.runtime.native.convention import MOST_CHUNKS
from afterglow.testing.graphs import functions_of_floats
from afterglow.testing.ranged_checks import check_ranged, module_of
from afterglow.types import Array, TensorType
from afterglow.types.dtype import f32
from afterglow.types.extent import Dim, ranged
from tests.backends.cpu import networks
from tests.transforms.rewriting import random_inputs

TARGET = Target.host()
QUICK = settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)


def call(units: int, work: float, *, beside: bool = False, symbol: str = "f") -> Call:
    return Call(KernelFunction(symbol, units, work, beside=beside), ())


def symbols(steps: list[Step]) -> list[list[list[str]]]:
    return [[[each.function.symbol for each in lane] for lane in step.lanes] for step in steps]


LARGE = 1000.0 * CHUNK


def test_calls_of_independent_instructions_run_side_by_side_phase_by_phase() -> None:
    first = [call(8, LARGE, symbol=name) for name in ("a1", "a2", "a3")]
    second = [call(8, LARGE, symbol=name) for name in ("b1", "b2")]
    assert symbols(join_calls([first, second])) == [
        [["a1"], ["b1"]],
        [["a2"], ["b2"]],
        [["a3"]],
    ]


def test_phases_that_are_independent_run_side_by_side() -> None:
    phases = [call(8, LARGE, symbol="weight"), call(8, LARGE, symbol="input", beside=True)]
    product = call(8, LARGE, symbol="product")
    assert symbols(join_calls([[*phases, product]])) == [[["weight"], ["input"]], [["product"]]]


def test_small_calls_share_a_lane() -> None:
    small = [[call(1, 100.0, symbol=f"s{n}")] for n in range(3)]
    steps = join_calls([[call(8, LARGE, symbol="large")], *small])
    assert symbols(steps) == [[["large"], ["s0", "s1", "s2"]]]


def test_lanes_have_parts_of_equal_work() -> None:
    step = Step(((call(1000, 3 * LARGE),), (call(2, LARGE),)))
    assert step.parts == [PARTS * 3 // 4, PARTS // 4]
    assert step.chunks == MOST_CHUNKS


def test_few_chunks_if_there_is_little_work() -> None:
    assert Step(((call(8, 2.0 * CHUNK),), (call(8, 3.0 * CHUNK),))).chunks == 5


def test_calls_in_a_row_are_one_unit() -> None:
    assert Step(((call(8, LARGE), call(8, LARGE)),)).chunks == 1


BRANCHES = """
    program @main arena 64 {
      input %x : f32[4]
      output %y : f32[8]
      %a = alloc f32[4] at 0
      exp out %a, in %x
      %b = alloc f32[4] at ADDRESS
      neg out %b, in %x
      %left = view %y[0:4] : f32[4]
      relu out %left, in %a
      %right = view %y[4:8] : f32[4]
      relu out %right, in %b
      dealloc %a
      dealloc %b
    }
"""


@pytest.mark.parametrize(("address", "sizes"), [(16, [2, 2]), (12, [1, 1, 2]), (0, [1, 1, 2])])
def test_instructions_are_independent_if_their_addresses_are(
    address: int, sizes: list[int]
) -> None:
    program = parse_program(BRANCHES.replace("ADDRESS", str(address)))
    steps = [step for step in program.body if isinstance(step, OpInstr)]
    assert [len(run) for run in independent_runs(steps, 16)] == sizes
    assert [len(run) for run in independent_runs(steps, 1)] == [1] * 4


def planned(function: Function) -> Program:
    return Stages(Options(cache=None)).finish(function.module.clone()).program


def touched(instruction: Instr, *, written: bool) -> dict[Buffer | None, Array]:
    """The bytes that an instruction touches, or writes; those of the arena under None."""
    found: dict[Buffer | None, Array] = {}
    for access, buffer in instruction.accesses():
        root = buffer.root
        if written and not access.writes:
            continue
        marks = np.zeros(root.type.nbytes, np.bool_)
        if buffer.type.size:
            bytes_of(buffer, marks)[...] = True
        if root.region is Region.ARENA:
            assert root.address is not None
            arena = found.setdefault(None, np.zeros(1 << 20, np.bool_))
            arena[root.address : root.address + marks.size] |= marks
        else:
            found[root] = found.get(root, False) | marks
    return found


def hazard(a: Instr, b: Instr) -> bool:
    """Whether one writes what the other touches, byte by byte."""
    pairs = [(touched(x, written=True), touched(y, written=False)) for x, y in ((a, b), (b, a))]
    return any((own[r] & other[r]).any() for own, other in pairs for r in own if r in other)


@QUICK
@given(functions_of_floats(most_steps=20))
def test_no_member_of_a_step_writes_what_another_touches(function: Function) -> None:
    for segment in generate(planned(function), TARGET).segments:
        for step, origins in zip(segment.steps, segment.origins_of_steps, strict=True):
            if len(step.lanes) > 1:
                for a, b in combinations(dict.fromkeys(origins), 2):
                    assert not hazard(a, b)


@pytest.fixture
def all_shared(monkeypatch: pytest.MonkeyPatch) -> None:
    """Divides steps however small they are, and wakes threads for them."""
    for module in (calls_module, steps_module):
        monkeypatch.setattr(module, "CHUNK", 1)
    monkeypatch.setattr(native_module, "WORK_TO_SHARE", 0)


@QUICK
@given(functions_of_floats(most_steps=20))
@pytest.mark.usefixtures("all_shared")
def test_random_functions_have_the_same_bits_on_any_number_of_threads(function: Function) -> None:
    inputs = random_inputs(function)
    results = [
        ag.compile(function.module.clone(), cache=False, threads=threads).run(
            None, dict(zip((x.name for x in function.inputs), inputs, strict=True))
        )
        for threads in (1, 2, 5)
    ]
    interpreted = ag.compile(function.module.clone(), cache=False, backend="interpreter").run(
        None, dict(zip((x.name for x in function.inputs), inputs, strict=True))
    )
    for one, two, five, wanted in zip(*results, interpreted, strict=True):
        np.testing.assert_array_equal(one, two)
        np.testing.assert_array_equal(one, five)
        np.testing.assert_allclose(one, wanted, rtol=1e-3, atol=1e-4)


NETWORK = """
    func @main(%first: f32[128, 2048], %u: f32[2048, 256], %w: f32[256, 256], %v: f32[256, 64]) {
      %wide = softmax(%first) {axis = -1} : f32[128, 2048]
      %x = matmul(%wide, %u) {transpose_lhs = false, transpose_rhs = false} : f32[128, 256]
      %a = matmul(%x, %w) {transpose_lhs = false, transpose_rhs = false} : f32[128, 256]
      %b = softmax(%x) {axis = -1} : f32[128, 256]
      %c = matmul(%a, %v) {transpose_lhs = false, transpose_rhs = false} : f32[128, 64]
      %d = matmul(%b, %v) {transpose_lhs = false, transpose_rhs = false} : f32[128, 64]
      %y = mul(%c, %d) : f32[128, 64]
      return %y
    }
"""


def test_a_step_has_the_names_of_all_its_members() -> None:
    program = Stages(Options(cache=None)).finish(ag.parse_module(NETWORK)).program
    segments = generate(program, TARGET).segments
    steps = zip(segments[0].steps, step_names(segments), strict=True)
    named = [(step, name) for step, name in steps if len(step.lanes) > 1]
    assert named
    for step, name in named:
        assert all(each.function.symbol in name for each in step.calls)


def test_each_instruction_has_steps_of_its_own_if_it_is_asked_for() -> None:
    program = Stages(Options(cache=None)).finish(ag.parse_module(NETWORK)).program
    together, apart = (
        build(program, TARGET, by_instruction=by_instruction).parts
        for by_instruction in (False, True)
    )
    assert sum(part.steps for part in together) < sum(part.steps for part in apart)


def test_a_saved_model_has_the_same_steps_and_results(tmp_path: Path) -> None:
    model = ag.compile(ag.parse_module(NETWORK), cache=False, threads=2)
    rng = np.random.default_rng(0)
    inputs = [rng.standard_normal(x.shape).astype(np.float32) for x in model.inputs]
    model.save(tmp_path / "m.agc")
    for threads in (1, 2):
        loaded = ag.load(tmp_path / "m.agc", threads=threads)
        np.testing.assert_array_equal(loaded(*inputs), model(*inputs))


def test_parts_cover_each_unit_once_however_they_are_cut() -> None:
    for units in (1, 2, 7, 300):
        for parts in (1, 3, 64, 256):
            bounds = [-(-part * units // parts) for part in range(parts + 1)]
            assert [bounds[0], bounds[-1]] == [0, units]
            assert all(first <= last for first, last in pairwise(bounds))


def test_code_is_the_same_each_time() -> None:
    program = Stages(Options(cache=None)).finish(ag.import_model(networks.cnn())).program
    texts = [[m.text for m in generate(program, TARGET).modules] for _ in range(2)]
    assert texts[0] == texts[1]


@pytest.mark.usefixtures("all_shared")
def test_branches_of_ranged_programs_run_side_by_side() -> None:
    s = ranged(Dim("s", 1, 96))

    def emit(b: Builder, x: Value, w: Value, v: Value) -> list[Value]:
        wide = b.emit(Exp(), b.emit(MatMul(), b.emit(MatMul(), x, w), v))
        left = b.emit(MatMul(), b.emit(Softmax(), wide), w)
        right = b.emit(MatMul(), b.emit(Tanh(), wide), w)
        return [b.emit(Softmax(), left), b.emit(Softmax(), right)]

    types = [TensorType(f32, shape) for shape in ((s, 32), (32, 32), (32, 32))]
    module = module_of(types, emit)
    steps = ag.compile(module, cache=False).compiled.executable.steps()
    assert max(len(step.kernel.split(", ")) for step in steps) > 1
    check_ranged(module, [{"s": n} for n in (1, 7, 96)], threads=2)
    check_ranged(module, [{"s": n} for n in (1, 7, 96)], threads=5)
