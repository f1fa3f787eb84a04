"""If, Loop and Scan as machine code."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest

import afterglow
from afterglow.backends.cpu import Target
from afterglow.backends.cpu.codegen.build import build
from afterglow.backends.cpu.codegen.calls import Guard
from afterglow.backends.cpu.codegen.generate import generate, host_steps
from afterglow.graph import Builder, Function, Module, Subgraph, parse_module, run_function
from afterglow.runtime import CompiledModel
from afterglow.runtime.native.program import Host
from afterglow.testing.cases.case import Case
from afterglow.testing.cases.control import CASES
from afterglow.testing.ranged_checks import check_ranged
from afterglow.types import Array
from tests.backends.cpu import networks
from tests.backends.cpu.codegen.control_programs import RANGED_TEXTS, TEXTS, RandomProgram
from tests.frontends.models import BOOL, INT64, body, info, model, node


def compiled(module: Module | onnx.ModelProto, **options: object) -> CompiledModel:
    made = afterglow.compile(module, cache=False, **options)
    program = made.compiled.program
    assert host_steps(program) == []
    return made


def module_of(name: str) -> Module:
    return parse_module(TEXTS[name])


def run(module: Module, inputs: Sequence[Array], **options: object) -> list[Array]:
    names = [placeholder.name for placeholder in module.main.inputs]
    feed = dict(zip(names, inputs, strict=True))
    return compiled(module.clone(), **options).run(None, feed)


def check(module: Module, inputs: Sequence[Array], **options: object) -> None:
    want = run_function(module.main, list(inputs))
    for have, expected in zip(run(module, inputs, **options), want, strict=True):
        assert have.dtype == expected.dtype
        np.testing.assert_allclose(have, expected, rtol=1e-4, atol=1e-5)


def floats(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).uniform(-1, 1, shape).astype(np.float32)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_cases_of_the_ops(case: Case) -> None:
    module = Module()
    main = Function("main", module)
    bodies = {
        name: value.function for name, value in vars(case.op).items() if isinstance(value, Subgraph)
    }
    for function in {*bodies.values()}:
        function.clone(function.name, module)
    moved = {name: Subgraph(module.functions[f.name]) for name, f in bodies.items()}
    op = replace(case.op, **moved)
    operands = [main.input(f"x{i}", t) for i, t in enumerate(case.types)]
    for index, result in enumerate(Builder(main).emit_node(op, *operands).results):
        main.output(f"y{index}", result)
    check(module, [x for x in case.inputs() if x is not None])


@pytest.mark.parametrize(
    ("limit", "goes_on", "stop"),
    [
        (10, True, 1000),
        (10, True, 12),
        (10, False, 1000),
        (0, True, 5),
        (-3, True, 5),
        (7, True, 0),
    ],
)
def test_loops_end_by_count_or_by_condition(limit: int, goes_on: bool, stop: int) -> None:
    inputs = [np.array(limit), np.array(goes_on), np.array(3), np.array(stop)]
    check(module_of("while"), inputs)


@pytest.mark.parametrize("limit", [0, 1, 2, 11])
@pytest.mark.parametrize("optimize", [True, False])
def test_carried_values_change_places(limit: int, optimize: bool) -> None:
    start = [np.array(limit), np.array(True)]
    check(module_of("fibonacci"), [*start, np.array([0, 3]), np.array([1, 4])], optimize=optimize)
    check(module_of("turn"), [*start, *(floats(2, seed=i) for i in range(4))], optimize=optimize)


@pytest.mark.parametrize("options", [{}, {"verify": True}, {"target": "x86-64-v3"}])
def test_scans(options: dict[str, object]) -> None:
    inputs = [floats(4), floats(5, 4, seed=1), floats(5, 2, 2, seed=2), floats(4, 4, seed=3)]
    check(module_of("scan"), inputs, **options)


def test_operands_may_be_views() -> None:
    check(module_of("views"), [floats(4, 3), floats(4, 3, seed=1), floats(8, seed=2)])
    check(module_of("twice"), [floats(4, 3), np.array(3), np.array(True)])


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("sign", [1, -1])
def test_choices(threads: int, sign: int) -> None:
    x = np.abs(floats(3, 4)) * np.float32(sign)
    check(module_of("choice"), [x, floats(4, 4, seed=1)], threads=threads)


@pytest.mark.parametrize("options", [{"threads": 1}, {"threads": 2}, {"verify": True}])
def test_a_choice_in_a_loop_in_a_scan(options: dict[str, object]) -> None:
    check(module_of("nested"), [floats(4), floats(6, 4, seed=1), np.array(4)], **options)


@pytest.mark.parametrize("seed", range(16))
def test_random_programs(seed: int) -> None:
    made = RandomProgram(seed)
    inputs = [floats(3, 4, seed=10 * seed + i) for i in range(3)]
    check(made.module, inputs)


def test_threads_give_the_same_bits() -> None:
    made = RandomProgram(3, depth=2)
    inputs = [floats(3, 4, seed=i) for i in range(3)]
    first, second = (run(made.module, inputs, threads=threads) for threads in (1, 2))
    assert [a.tobytes() for a in first] == [b.tobytes() for b in second]


def large_choice() -> onnx.ModelProto:
    """Branches that are worth several threads."""
    then = body([node("MatMul", ["x", "w"], ["a"])], [], ["a"])
    other = body([node("MatMul", ["w", "x"], ["b0"]), node("Tanh", ["b0"], ["b"])], [], ["b"])
    return model(
        [
            node("ReduceSum", ["x"], ["s"], keepdims=0),
            node("Greater", ["s", "zero"], ["c"]),
            node("If", ["c"], ["r"], then_branch=then, else_branch=other),
            node("Add", ["r", "x"], ["y"]),
        ],
        inputs=[info("x", (256, 256))],
        outputs=[info("y", (256, 256))],
        constants={"w": floats(256, 256, seed=5), "zero": np.float32(0)},
    )


@pytest.mark.parametrize("name", RANGED_TEXTS)
def test_control_flow_over_ranged_values_runs_without_the_host(name: str) -> None:
    module = parse_module(RANGED_TEXTS[name])
    compiled(module.clone())
    check_ranged(module, [{"b": b, "s": s} for b, s in [(1, 1), (3, 2), (2, 17), (3, 300)]])


@pytest.mark.parametrize("sign", [1, -1])
def test_threads_share_the_work_of_branches(sign: int) -> None:
    source = large_choice()
    x = np.abs(floats(256, 256)) * np.float32(sign)
    w = floats(256, 256, seed=5)
    want = (x @ w if sign > 0 else np.tanh(w @ x)) + x
    results = []
    for threads in (1, 2):
        made = compiled(source, threads=threads)
        assert made.compiled.executable.native.parts[0].is_shared
        results.append(made.run(None, {"x": x})[0])
    np.testing.assert_allclose(results[0], want, rtol=1e-3, atol=1e-3)
    assert results[0].tobytes() == results[1].tobytes()


def test_branches_share_memory_and_carry_guards() -> None:
    program = compiled(large_choice()).compiled.program
    made = generate(program, Target.host())
    guarded = {call.guards for call in made.segments[0].calls}
    (wanted,) = {guard.place for guards in guarded for guard in guards}
    assert guarded == {(), (Guard(wanted, True),), (Guard(wanted, False),)}
    (choice,) = (step for step in program.body if getattr(step, "bodies", ()))
    assert choice.plan.workspace == {"body": max(body.arena_bytes for body in choice.bodies)}


def test_reversed_scans_of_other_axes() -> None:
    nodes = [node("Add", ["s", "a"], ["t"]), node("Mul", ["t", "b"], ["p"])]
    inner = body(nodes, [info("s", (3,)), info("a", (3,)), info("b", (3,))], ["t", "p"])
    scan = node(
        "Scan",
        ["s0", "a", "b"],
        ["t", "p"],
        body=inner,
        num_scan_inputs=2,
        scan_input_axes=[1, 0],
        scan_input_directions=[1, 0],
        scan_output_axes=[1],
        scan_output_directions=[1],
    )
    source = model(
        [scan],
        inputs=[info("s0", (3,)), info("a", (3, 7)), info("b", (7, 3))],
        outputs=[info("t", (3,)), info("p", (3, 7))],
    )
    s, a, b = floats(3), floats(3, 7, seed=1), floats(7, 3, seed=2)
    parts, state = [], s
    for i in range(7):
        state = state + a[:, 6 - i]
        parts.append(state * b[i])
    final, stacked = compiled(source).run(None, {"s0": s, "a": a, "b": b})
    np.testing.assert_allclose(final, state, rtol=1e-5)
    np.testing.assert_allclose(stacked, np.stack(parts[::-1], axis=1), rtol=1e-5)


def counting_loop() -> onnx.ModelProto:
    """The number of iterations is an input; a small body with a captured value."""
    nodes = [
        node("Add", ["v", "w"], ["sum"]),
        node("Tanh", ["sum"], ["v1"]),
        node("Less", ["v1", "never"], ["stops"]),
        node("ReduceMin", ["stops_i"], ["low"], keepdims=0),
        node("Cast", ["stops"], ["stops_i"], to=INT64),
        node("Less", ["low", "one"], ["go1"]),
    ]
    inner = body(
        nodes,
        [info("n", (), INT64), info("go", (), BOOL), info("v", (16,))],
        ["go1", "v1"],
        {"never": np.full(16, -5, np.float32), "one": np.array(1)},
    )
    return model(
        [node("Loop", ["trips", "", "v0"], ["v"], body=inner)],
        inputs=[info("trips", (), INT64), info("v0", (16,)), info("w", (16,))],
        outputs=[info("v", (16,))],
    )


def test_ten_thousand_iterations_take_less_than_two_microseconds_each() -> None:
    made = compiled(counting_loop(), threads=1)
    v, w = floats(16), floats(16, seed=1)
    feed = {"trips": np.array(10_000), "v0": v, "w": w}
    (result,) = made.run(None, feed)
    for _ in range(10_000):
        v = np.tanh(v + w)
    np.testing.assert_allclose(result, v, rtol=1e-4)
    seconds = []
    for _ in range(5):
        started = time.perf_counter()
        made.run(None, feed)
        seconds.append(time.perf_counter() - started)
    assert min(seconds) / 10_000 < 2e-6


def test_loops_can_be_saved(tmp_path: Path) -> None:
    path = tmp_path / "loop.agc"
    made = compiled(counting_loop())
    made.save(path)
    feed = {"trips": np.array(5), "v0": floats(16), "w": floats(16, seed=1)}
    np.testing.assert_array_equal(afterglow.load(path).run(None, feed)[0], made.run(None, feed)[0])


def text_beside_a_loop() -> onnx.ModelProto:
    loop = counting_loop()
    loop.graph.node.append(node("StringConcat", ["a", "a"], ["b"]))
    loop.graph.input.append(info("a", (2,), onnx.TensorProto.STRING))
    loop.graph.output.append(info("b", (2,), onnx.TensorProto.STRING))
    loop.opset_import[0].version = 20
    return loop


def test_loops_beside_steps_on_the_host_can_be_saved(tmp_path: Path) -> None:
    path = tmp_path / "both.agc"
    made = afterglow.compile(text_beside_a_loop(), cache=False)
    assert [type(part) is Host for part in made.compiled.executable.native.parts].count(True) == 1
    made.save(path)
    texts = np.array(["x", "y"], object)
    feed = {"trips": np.array(5), "v0": floats(16), "w": floats(16, seed=1), "a": texts}
    loop, doubled = afterglow.load(path).run(None, feed)
    np.testing.assert_array_equal(loop, made.run(None, feed)[0])
    assert doubled.tolist() == ["xx", "yy"]


def test_a_body_that_needs_the_host_runs_there() -> None:
    made = afterglow.compile(networks.choice_of_texts(), cache=False)
    ((_, reason),) = host_steps(made.compiled.program)
    assert reason == "its elements are not of the machine's types"
    for flag, want in ((True, ["xx", "yy"]), (False, ["x", "y"])):
        feed = {"c": np.array(flag), "a": np.array(["x", "y"], object)}
        assert made.run(None, feed)[0].tolist() == want


def test_llvm_text_has_loops_and_branches() -> None:
    made = compiled(module_of("nested"))
    text = made.ir("llvm")
    assert "define void @scan_1" in text
    assert "call void @loop_0" in text


@pytest.mark.parametrize("target", ["aarch64", "x86-64-v3"])
@pytest.mark.parametrize("name", ["nested", "scan", "while"])
def test_control_flow_becomes_code_for_other_machines(name: str, target: str) -> None:
    program = compiled(module_of(name)).compiled.program
    assert build(program, Target.of(target)).host is None
