"""What becomes of a model from its file to machine code, with the numbers of one model."""

from __future__ import annotations

from pathlib import Path

import onnx

from afterglow.driver.compile import import_model
from afterglow.driver.options import Options
from afterglow.driver.stages import Stages
from afterglow.instr import OpInstr, Stack
from pictures.page import Page

TARGET = "x86-64-v3"
BOX = 118, 62
STEP = 158
TOP = 52


def pipeline_picture(model: Path) -> str:
    """The stages from left to right: what is there, and what the stage between does."""
    page = Page(6 * STEP + 8, 166)
    page.text(8, 24, f"From {model.name} to machine code", "title")
    boxes = _boxes(model)
    works = ("import", "optimise", "lower", "plan", "emit")
    tools = ("import", "graph", "lowered", "instructions", "asm")
    for number, lines in enumerate(boxes):
        x = 8 + number * STEP
        page.box(x, TOP, BOX, *lines, hot=number == len(boxes) - 1)
        if number:
            page.arrow(x - STEP + BOX[0] + 2, TOP + 31, x - 3, TOP + 31)
            middle = x - (STEP - BOX[0]) / 2
            page.text(middle, TOP - 6, works[number - 1], "small", "middle")
            page.text(x + BOX[0] / 2, TOP + 82, f"--stage {tools[number - 1]}", "small", "middle")
    page.text(
        8, 156, "afterglow dump MODEL --stage NAME prints the model at any of these points", "small"
    )
    return page.draw()


def _boxes(model: Path) -> list[tuple[str, ...]]:
    stages = Stages(Options(target=TARGET))
    module = import_model(model)
    imported = len(module.main)
    optimised = len(stages.optimise(module).main)
    lowered = len(stages.lower(module).main)
    compiled = stages.finish(import_model(model))
    kernels = sum(isinstance(step, Stack | OpInstr) for step in compiled.program.body)
    return [
        ("ONNX", f"{len(onnx.load(model).graph.node)} nodes"),
        ("graph IR", f"{imported} nodes"),
        ("graph IR", f"{optimised} nodes"),
        ("graph IR", f"{lowered} nodes,", "in order"),
        ("instruction IR", f"{kernels} kernels", f"{compiled.plan.arena_bytes:,} B arena"),
        ("machine code", "allocates", "nothing"),
    ]
