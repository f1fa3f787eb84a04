"""Guards against code that silently becomes worse: what can be counted, compared with a table.

`pytest tests/backends/cpu/test_counts.py --bless` writes the counts of today, to be reviewed.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import pytest

from afterglow.backends.cpu import Target
from afterglow.backends.cpu.codegen.build import build
from afterglow.driver.options import Options
from afterglow.driver.sources import open_source
from afterglow.driver.stages import Stages
from afterglow.instr import Program
from afterglow.memory.lifetimes import working_steps
from afterglow.runtime.native.program import Host, Native, NativeProgram
from tests.backends.cpu import networks

STORED = Path(__file__).with_name("counts.json")
DIGITS = Path(__file__).parents[3] / "examples" / "digits" / "digits.onnx"
MODELS = {
    "digits": lambda: DIGITS,
    "cnn": networks.cnn,
    "mlp": networks.mlp,
    "transformer": networks.transformer,
}
TOLERANCE = {"work": 0.02, "code_bytes": 0.15, "weight_bytes": 0.02, "arena_bytes": 0.0}
"""How much more is no matter; of all else, nothing."""


def counts(program: Program, native: NativeProgram) -> dict[str, int]:
    machine_code = [part for part in native.parts if isinstance(part, Native)]
    return {
        "instructions": len(working_steps(program)),
        "steps": sum(part.steps for part in machine_code),
        "host_parts": sum(isinstance(part, Host) for part in native.parts),
        "work": int(sum(part.work for part in machine_code)),
        "code_bytes": native.image.size,
        "weight_bytes": native.constants.nbytes,
        "arena_bytes": native.arena_bytes,
    }


@cache
def counted(name: str) -> dict[str, int]:
    stages = Stages(Options(target="x86-64-v3"))
    module, _ = open_source(MODELS[name]()).load(stages.options)
    program, _ = stages.plan(stages.lower(stages.optimise(module)))
    return counts(program, build(program, Target.of("x86-64-v3")))


@pytest.mark.parametrize("name", MODELS)
def test_nothing_has_become_more(name: str, request: pytest.FixtureRequest) -> None:
    found = counted(name)
    stored = json.loads(STORED.read_text()) if STORED.exists() else {}
    if request.config.getoption("--bless"):
        stored[name] = found
        STORED.write_text(json.dumps(stored, indent=2) + "\n")
    for what, count in found.items():
        limit = stored[name][what] * (1 + TOLERANCE.get(what, 0.0))
        assert count <= limit, f"{what}: {count}, stored {stored[name][what]}"


@pytest.mark.parametrize("name", MODELS)
def test_everything_runs_natively(name: str) -> None:
    assert counted(name)["host_parts"] == 0
