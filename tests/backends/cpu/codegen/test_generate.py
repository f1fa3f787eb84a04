"""From planned programs to code: which kernels, in which steps, on which constants."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

import afterglow
from afterglow.backends.cpu.codegen.build import build
from afterglow.backends.cpu.codegen.calls import Call
from afterglow.backends.cpu.codegen.constants import Constants, elements_of
from afterglow.backends.cpu.codegen.generate import Generated, generate, host_steps
from afterglow.backends.cpu.codegen.steps import Segment, Step, join_small
from afterglow.backends.cpu.micro.kernel import KernelFunction, Packed, Table
from afterglow.backends.cpu.target import Target
from afterglow.driver.options import Options
from afterglow.driver.sources import open_source
from afterglow.driver.stages import Stages
from afterglow.instr import Buffer, Program, Region
from afterglow.runtime.native.convention import ALIGNMENT, MOST_CHUNKS
from afterglow.runtime.native.program import Host, Native
from afterglow.types import TensorType
from afterglow.types.dtype import f32
from tests.backends.cpu import networks
from tests.frontends.models import info, model, node

TARGETS = ["host", "x86-64-v3", "aarch64"]


def program_of(source: onnx.ModelProto, **options: object) -> Program:
    return afterglow.compile(source, **options).compiled.program


def planned_for(source: onnx.ModelProto, target: str) -> Program:
    """The program with kernels planned for a target that need not be this machine."""
    stages = Stages(Options(target=target))
    module, _ = open_source(source).load(stages.options)
    return stages.plan(stages.lower(stages.optimise(module)))[0]


def generated(source: onnx.ModelProto, target: str = "host", **options: object) -> Generated:
    return generate(planned_for(source, target), Target.of(target), **options)


def relus(*shapes: tuple[int, ...]) -> onnx.ModelProto:
    """Independent steps, one a shape."""
    return model(
        [node("Relu", [f"x{i}"], [f"y{i}"]) for i in range(len(shapes))],
        inputs=[info(f"x{i}", shape) for i, shape in enumerate(shapes)],
        outputs=[info(f"y{i}", shape) for i, shape in enumerate(shapes)],
    )


def test_equal_jobs_share_a_kernel() -> None:
    made = generated(relus((2, 3), (2, 3), (4, 3), (2, 3)))
    assert len(made.kernels) == 2
    (segment,) = made.segments
    assert len(segment.calls) == 4
    assert len({call.function.symbol for call in segment.calls}) == 2
    assert len({call.arguments for call in segment.calls}) == 4


def test_kernels_are_handed_on_as_soon_as_they_are_written() -> None:
    events: list[object] = []

    class Noted(Constants):
        def packed(self, buffer: Buffer, packed: Packed) -> int:
            events.append("packed")
            return super().packed(buffer, packed)

    made = generated(networks.mlp(), constants=Noted(), written=events.append)
    modules = [kernel.module for kernel in made.kernels.values()]
    assert [event for event in events if event != "packed"] == modules
    assert events.index("packed") < events.index(modules[-1])


def test_equal_steps_are_written_once() -> None:
    weights = np.ones((1, 4 * 512, 512), np.float32)
    lstm = model(
        [node("LSTM", ["x", "w", "r"], ["y"], hidden_size=512)],
        inputs=[info("x", (9, 8, 512))],
        outputs=[info("y", (9, 1, 8, 512))],
        constants={"w": weights, "r": weights},
    )
    made = generated(lstm)
    assert made.main is not None
    (segment,) = made.segments
    steps = segment.steps
    assert made.main.text.count("call void %") == len(steps)
    assert len([name for name in made.main.exports if name.startswith("step_")]) == len(steps) - 8


def test_code_is_the_same_each_time() -> None:
    source = networks.transformer()
    first, second = (generated(source) for _ in range(2))
    assert [m.text for m in first.modules] == [m.text for m in second.modules]
    assert first.constants.block().tobytes() == second.constants.block().tobytes()


@pytest.mark.parametrize("target", TARGETS)
def test_networks_become_code_for_other_machines(target: str) -> None:
    native = build(planned_for(networks.cnn(), target), Target.of(target))
    assert native.host is None
    assert native.image.machine == ("aarch64" if target == "aarch64" else "x86")


def call(units: int, work: float) -> Call:
    return Call(KernelFunction("f", units, work), ())


def test_small_calls_run_as_one_step() -> None:
    small, large = call(8, 100.0), call(8, 1e9)
    calls = [small, small, large, large, small, large, small, small]
    steps = join_small(Step(((each,),)) for each in calls)
    assert [len(step.calls) for step in steps] == [2, 1, 1, 1, 1, 2]
    assert join_small([]) == []


def test_chunks_follow_from_the_work_alone() -> None:
    assert call(100, 10.0).chunks == 1
    assert call(1, 1e12).chunks == 1
    assert call(3, 1e12).chunks == 3
    assert call(1000, 1e12).chunks == MOST_CHUNKS
    assert call(1000, 4 * (1 << 16)).chunks == 4


STRETCHES = [(24, 384), (18, 288), (100, 400), (200, 400), (600, MOST_CHUNKS)]


@pytest.mark.parametrize(("stretches", "chunks"), STRETCHES)
def test_chunks_begin_with_stretches(stretches: int, chunks: int) -> None:
    function = KernelFunction("f", 1000, 1e12, stretches=stretches)
    assert Call(function, ()).chunks == chunks


def test_instructions_apart() -> None:
    source = networks.mlp()
    together, apart = generated(source), generated(source, apart=True)
    assert len(together.segments) == 1
    origins = [{id(origin) for origin in segment.origins} for segment in apart.segments]
    assert all(len(instructions) == 1 for instructions in origins)
    assert len(origins) == len({id(o) for o in together.segments[0].origins})


LABELS = {"keys_floats": [2.0, 4.0], "values_floats": [1.0, 3.0], "default_float": 0.0}


def test_the_host_stands_between_segments() -> None:
    nodes = [
        node("Add", ["x", "x"], ["twice"]),
        node("LabelEncoder", ["twice"], ["found"], domain="ai.onnx.ml", **LABELS),
        node("Neg", ["found"], ["y"]),
    ]
    program = program_of(model(nodes, domains={"ai.onnx.ml": 4}, outputs=["y"]))
    made = generate(program, Target.host())
    kinds = [type(part) is Segment for part in made.parts]
    assert kinds == [True, False, True]
    native = build(program, Target.host())
    assert [type(part) for part in native.parts] == [Native, Host, Native]
    ((step, reason),) = host_steps(program)
    assert program.body[native.parts[1].index] is step
    assert reason == "there is no kernel for look_up"


def test_nothing_to_do_is_no_code() -> None:
    source = model(
        [node("Relu", ["x"], ["y"])], inputs=[info("x", (0, 3))], outputs=[info("y", (0, 3))]
    )
    assert generated(source).parts == []


def constant(name: str, array: np.ndarray) -> Buffer:
    return Buffer(name, TensorType(f32, array.shape), Region.CONSTANT, data=array)


def test_each_constant_is_placed_once() -> None:
    constants = Constants()
    a, b = constant("a", np.ones((2, 3), np.float32)), constant("b", np.zeros(5, np.float32))
    first, second = constants.raw(a), constants.raw(b)
    assert constants.raw(a) == first
    assert (first % ALIGNMENT, second % ALIGNMENT) == (0, 0)
    assert second >= first + a.type.nbytes
    block = constants.block()
    assert block.nbytes == constants.size == 2 * ALIGNMENT
    np.testing.assert_array_equal(block[first : first + 24].view(np.float32), np.ones(6))


def test_a_constant_is_packed_once_for_each_way() -> None:
    constants, packings = Constants(), []
    weight = constant("w", np.arange(6, dtype=np.float32).reshape(2, 3))

    def transpose(array: np.ndarray) -> np.ndarray:
        packings.append(array.shape)
        return array.T

    one, other = Packed(0, transpose), Packed(0, lambda array: -array)
    at = constants.packed(weight, one)
    assert constants.packed(weight, one) == at
    assert constants.packed(weight, other) != at
    assert packings == [(2, 3)]
    data = constants.block()[at : at + 24].view(np.float32)
    assert data.tolist() == [0, 3, 1, 4, 2, 5]


def test_room_for_constants_grows_with_them() -> None:
    constants = Constants()
    constants.expect(3 * ALIGNMENT)
    arrays = [np.full(50 + number, number, np.float32) for number in range(9)]
    places = [constants.raw(constant(str(number), array)) for number, array in enumerate(arrays)]
    block = constants.block()
    assert block.nbytes == places[-1] + 4 * ALIGNMENT
    for at, array in zip(places, arrays, strict=True):
        padded = block[at : at + 4 * ALIGNMENT].view(np.float32)
        np.testing.assert_array_equal(padded[: array.size], array)
        assert not padded[array.size :].any()


def test_tables_and_constants_that_lie_transposed() -> None:
    constants = Constants()
    turned = constant("t", np.arange(6, dtype=np.float32).reshape(2, 3).T)
    at = constants.raw(turned)
    table = constants.table(Table(np.array([7, 8], np.int64)))
    block = constants.block()
    assert block[at : at + 24].view(np.float32).tolist() == [0, 3, 1, 4, 2, 5]
    assert block[table : table + 16].view(np.int64).tolist() == [7, 8]
    assert elements_of(turned).shape == (3, 2)


def test_weights_are_not_stored_twice() -> None:
    made = generated(networks.mlp())
    raw = sum(buffer.type.nbytes for buffer in made.program.constants)
    assert made.constants.size < 1.25 * raw


def test_memory_that_kernels_need_is_that_of_the_greediest() -> None:
    made = generated(networks.cnn())
    assert made.scratch_bytes == max(
        f.scratch_bytes for k in made.kernels.values() for f in k.functions
    )
