"""What becomes of the nodes of a model."""

from __future__ import annotations

from afterglow.driver.compile import import_model
from afterglow.driver.options import Options
from afterglow.driver.stages import Stages
from afterglow.report.fates import Fate, find_fates, origins
from tests.frontends.models import BOOL, body, info, model, node


def test_nodes_are_compiled_lowered_or_need_no_code() -> None:
    nodes = [
        node("Exp", ["x"], ["a"], name="first"),
        node("Det", ["a"], ["b"], name="second"),
        node("Identity", ["b"], ["y"], name="third"),
    ]
    made = model(nodes, inputs=[info("x", (4, 2, 2))], outputs=[info("y", (4,))])
    stages = Stages(Options(backend="cpu"))
    module = stages.optimise(import_model(made))
    wanted = origins(module)
    program, _ = stages.plan(stages.lower(module))
    names = [("first", "Exp"), ("second", "Det"), ("third", "Identity")]
    fates = find_fates(names, wanted, program, [])
    assert fates.counts[Fate.COMPILED] == {"Exp": 1}
    assert fates.counts[Fate.LOWERED] == {"Det": 1}
    assert fates.counts[Fate.NO_CODE] == {"Identity": 1}
    assert "mul" in fates.lowered_to["Det"]


def test_nodes_in_bodies_count_too() -> None:
    then_branch = body([node("Exp", ["x"], ["t"], name="inner")], (), ("t",))
    else_branch = body([node("Neg", ["x"], ["e"], name="other")], (), ("e",))
    branch = node("If", ["c"], ["y"], name="if", then_branch=then_branch, else_branch=else_branch)
    made = model([branch], inputs=["x", info("c", (), BOOL)])
    stages = Stages(Options(backend="cpu"))
    module = stages.optimise(import_model(made))
    wanted = origins(module)
    program, _ = stages.plan(stages.lower(module))
    names = [("if", "If"), ("inner", "Exp"), ("other", "Neg")]
    fates = find_fates(names, wanted, program, [])
    assert fates.counts[Fate.COMPILED] == {"If": 1, "Exp": 1, "Neg": 1}
    on_host = find_fates(names, wanted, program, program.body)
    assert on_host.counts[Fate.HOST] == {"If": 1, "Exp": 1, "Neg": 1}
