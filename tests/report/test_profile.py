from __future__ import annotations

import numpy as np
import onnx

from afterglow.driver.options import Options
from afterglow.driver.sources import open_source
from afterglow.driver.stages import Stages
from afterglow.report.profile import profile
from afterglow.runtime.device import LoadOptions
from tests.frontends.models import BOOL, INT64, info, model, node
from tests.ops.test_flops import DIGITS


def test_every_instruction_is_timed():
    stages = Stages(Options())
    module, _ = open_source(DIGITS).load(stages.options)
    program, _ = stages.plan(stages.lower(stages.optimise(module)))
    image = np.zeros((1, 1, 8, 8), np.float32)
    steps = profile(stages.backend, program, [image], LoadOptions(1), repeat=2)
    places = [step.place for step in steps]
    assert places == sorted(set(places))
    assert all(step.seconds > 0 and not step.on_host for step in steps)
    conv = next(step for step in steps if step.kernel.startswith("conv_3x3_relu"))
    assert conv.origins == ("conv1", "norm1", "relu1")
    assert conv.results == ("f32[1, 8, 8, 16]",)
    assert conv.gflops > 0
    assert conv.bandwidth > 0


def test_a_loop_is_timed_as_a_whole():
    body = onnx.helper.make_graph(
        [node("MatMul", ["s", "w"], ["t"]), node("Identity", ["c"], ["d"])],
        "body",
        [info("i", (), INT64), info("c", (), BOOL), info("s", (16, 16))],
        [info("d", (), BOOL), info("t", (16, 16))],
    )
    proto = model(
        [node("Loop", ["n", "", "x"], ["y"], body=body)],
        inputs=[info("x", (16, 16))],
        outputs=[info("y", (16, 16))],
        constants={"w": np.eye(16, dtype=np.float32), "n": np.int64(300)},
    )
    stages = Stages(Options())
    module, _ = open_source(proto).load(stages.options)
    program, _ = stages.plan(stages.lower(stages.optimise(module)))
    steps = profile(stages.backend, program, [np.eye(16, dtype=np.float32)], LoadOptions(1), 1)
    assert "scan" in [step.kernel for step in steps]
