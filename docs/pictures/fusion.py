"""What fusion saves: a layer as its file has it, and the one kernel that it becomes."""

from __future__ import annotations

from pathlib import Path

from afterglow.driver.compile import import_model
from afterglow.driver.options import Options
from afterglow.driver.stages import Stages
from afterglow.graph import Node
from afterglow.instr import Stack
from pictures.page import Page

TARGET = "x86-64-v3"
BOX = 190, 40
STEP = 66
LEFT, RIGHT = 20, 380


def fusion_picture(model: Path) -> str:
    """The nodes of a layer from top to bottom, each with what it writes; and its stack."""
    module = import_model(model)
    compiled = Stages(Options(target=TARGET)).finish(import_model(model))
    stack = next(step for step in compiled.program.body if isinstance(step, Stack))
    last = stack.body[-1].outs[0]
    nodes = [*module.main.nodes]
    end = next(i for i, node in enumerate(nodes) if node.name == last.name)
    start = next(i for i, node in enumerate(nodes) if node.op.mnemonic == "conv")
    layer = nodes[start : end + 1]
    page = Page(740, 64 + STEP * len(layer) + 34)
    page.text(LEFT, 24, f"{len(layer)} nodes of {model.name}", "title")
    page.text(RIGHT, 24, "one kernel", "title")
    _nodes(page, layer)
    names = " + ".join(step.op.mnemonic for step in stack.body)
    height = STEP * len(layer) - (STEP - BOX[1])
    lines = (names, "", "batch_norm: folded into the weights")
    lines += ("transpose: the layout is chosen once", "the sum stays in registers until")
    lines += ("its activation is applied",)
    page.box(RIGHT, 46, (300, height), *lines, hot=True)
    y = 46 + height
    page.arrow(RIGHT + 150, y, RIGHT + 150, y + 24)
    page.text(RIGHT + 158, y + 18, _written(last.type.nbytes), "small")
    total = sum(node.result.type.nbytes for node in layer)
    page.text(LEFT, page.height - 8, f"{total:,} bytes written", "")
    page.text(RIGHT, page.height - 8, f"{last.type.nbytes:,} bytes written", "")
    return page.draw()


def _nodes(page: Page, layer: list[Node]) -> None:
    for number, node in enumerate(layer):
        y = 46 + STEP * number
        page.box(LEFT, y, BOX, node.op.mnemonic, f"%{node.name}")
        page.arrow(LEFT + BOX[0] / 2, y + BOX[1], LEFT + BOX[0] / 2, y + STEP - 2)
        written = _written(node.result.type.nbytes)
        page.text(LEFT + BOX[0] / 2 + 8, y + STEP - 9, written, "small")


def _written(size: int) -> str:
    return f"writes {size:,} B"
