"""A training step computes values of its forward pass again instead of keeping them."""

from __future__ import annotations

import inspect
from dataclasses import replace

import pytest

import afterglow.ops  # noqa: F401  fills the catalogue
from afterglow.graph import Function, Node, parse_function, print_function
from afterglow.instr import Program
from afterglow.lowering.recompute import Checkpoint, Planning, Recompute
from afterglow.lowering.recompute.forward import Forward
from afterglow.lowering.recompute.search import choices
from afterglow.lowering.recompute.segments import narrow_segments
from afterglow.lowering.schedule import Schedule, peak_bytes
from afterglow.memory import remove_copies, update_in_place
from afterglow.support.errors import UnsupportedError, UsageError

PLAIN = "{transpose_lhs = false, transpose_rhs = false} : f32[64, 64]"


def work(node: Node) -> float:
    types = [None if value is None else value.type for value in node.operands]
    return node.op.work(node.results[0].type, types)


def settle(program: Program) -> None:
    remove_copies(program)
    update_in_place(program)


def peak(function: Function) -> int:
    return peak_bytes(function, settle)


PLANNING = Planning(work, Schedule(settle).run_after, peak)


def step(layers: int) -> Function:
    """A step of a network of products and activations, as written by hand; 16 KiB a tensor."""
    lines, gradients = [], ["%g = neg(%y) : f32[64, 64]"]
    last, slope = "%x", "%g"
    for i in range(layers):
        result = "%y" if i == layers - 1 else f"%r{i}"
        lines += [f"%a{i} = matmul({last}, @w{i}) {PLAIN}", f"{result} = tanh(%a{i}) : f32[64, 64]"]
        turned = "{transpose_lhs = true, transpose_rhs = false} : f32[64, 64]"
        back = "{transpose_lhs = false, transpose_rhs = true} : f32[64, 64]"
        own = [
            f"%m{i} = mul(SLOPE, {result}) : f32[64, 64]",
            f"%d{i} = matmul(%m{i}, @w{i}) {back}",
            f"%v{i} = matmul({last}, %m{i}) {turned}",
            f"%n{i} = sub(@w{i}, %v{i}) : f32[64, 64]",
        ]
        gradients.append("\n".join(own))
        last = result
    body = [*lines, "%loss = reduce_sum(%y) {axes = (0, 1), keepdims = false} : f32[]"]
    body.append(gradients[0])
    for i in reversed(range(layers)):
        body.append(gradients[i + 1].replace("SLOPE", slope))
        slope = f"%d{i}"
    states = [f"state @w{i} : f32[64, 64]" for i in range(layers)]
    stores = [f"store %n{i} to @w{i}" for i in range(layers)]
    head = "func @main(%x: f32[64, 64]) {"
    return parse_function("\n".join([*states, head, *body, *stores, "return %loss", "}"]))


def recompute(
    function: Function, checkpoint: Checkpoint | None = None, budget: int | None = None
) -> bool:
    return Recompute(PLANNING, checkpoint, budget).run(function)


def again(function: Function) -> list[str]:
    """The nodes that run again, in order."""
    names = (node.name for node in function.nodes)
    return [name.removesuffix(".again") for name in names if name.endswith(".again")]


def test_light_nodes_run_again_where_that_keeps_less() -> None:
    function = parse_function(
        inspect.cleandoc(f"""
        state @w : f32[64, 64]
        func @main(%x: f32[64, 64]) {{
          %a = matmul(%x, @w) {PLAIN}
          %r = relu(%a) : f32[64, 64]
          %s = softmax(%r) {{axis = 1}} : f32[64, 64]
          %loss = reduce_sum(%s) {{axes = (0, 1), keepdims = false}} : f32[]
          %g = mul(%s, %r) : f32[64, 64]
          %n = sub(@w, %g) : f32[64, 64]
          store %n to @w
          return %loss
        }}
        """)
    )
    assert Recompute(replace(PLANNING, schedule=lambda *_: None), 1).run(function)
    assert print_function(function).splitlines()[5:7] == [
        "  %s.again = softmax(%r) {axis = 1} : f32[64, 64]",
        "  %g = mul(%s.again, %r) : f32[64, 64]",
    ]


def test_segments_keep_their_ends() -> None:
    function = step(6)
    assert recompute(function, 3)
    assert again(function) == ["a3", "r3", "a0", "r0", "a1", "r1"]


def test_named_nodes_are_kept() -> None:
    function = step(6)
    assert recompute(function, ("r3",))
    assert again(function) == ["a0", "r0", "a1", "r1", "a2", "r2"]


def test_a_checkpoint_that_names_nothing_is_an_error() -> None:
    with pytest.raises(UsageError) as error:
        recompute(step(2), "no*")
    assert str(error.value) == (
        "error: no node of the forward pass matches checkpoint 'no*'\n"
        "  help: there are a0, r0, a1, y, loss"
    )


def test_each_choice_that_costs_more_holds_less() -> None:
    forward = Forward(step(12))
    found = choices(forward, work)
    assert [c.held for c in found] == sorted((c.held for c in found), reverse=True)
    assert [c.cost for c in found] == sorted(c.cost for c in found)
    assert narrow_segments(forward).count == 12
    assert found[-1].held < found[0].held * 3 / 4


def test_a_budget_takes_as_little_as_fits() -> None:
    plain = step(12)
    PLANNING.schedule(plain, {})
    whole = peak(plain)
    functions = {share: step(12) for share in (1.0, 0.9, 0.7)}
    for share, function in functions.items():
        recompute(function, budget=int(whole * share))
        assert peak(function) <= whole * share
    counts = [len(again(function)) for function in functions.values()]
    assert counts[0] == 0 < counts[1] < counts[2]


def test_a_budget_that_cannot_be_met_says_what_would_do() -> None:
    with pytest.raises(UnsupportedError) as error:
        recompute(step(4), budget=1000)
    assert str(error.value) == (
        "error: the arena of a training step does not fit 1,000 bytes, but would fit 65,536\n"
        "  in function @main, with all segments computed again\n"
        "  help: allow 65,536 bytes, or give batches of fewer samples"
    )


def test_a_function_without_a_backward_pass_stays_as_it_is() -> None:
    function = parse_function("func @main(%x: f32[4]) {\n%y = exp(%x) : f32[4]\nreturn %y\n}")
    assert not recompute(function, "auto")
