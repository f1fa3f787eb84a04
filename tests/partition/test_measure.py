"""Steps that are measured, in the shape of those that are estimated."""

from __future__ import annotations

from afterglow.backends.capabilities import ProgramProfile, StepSeconds
from afterglow.driver.options import Options
from afterglow.driver.stages import Stages
from afterglow.graph import parse_module
from afterglow.partition.measure import measure_steps
from afterglow.runtime.device import LoadOptions

TEXT = """
func @main(%x: f32[2, 3], %words: i64[2]) {
  %a = softmax(%x) {axis = -1} : f32[2, 3]
  %y = gather(%a, %words) {axis = 0} : f32[2, 3]
  return %y
}
"""


class Timer:
    """A backend whose steps get faster."""

    def __init__(self) -> None:
        self.runs: list[int] = []

    def profile(self, program, inputs, states, options, repeat):
        assert [x.shape for x in inputs] == [b.type.shape for b in program.inputs]
        self.runs.append(repeat)
        seconds = 0.001 / len(self.runs)
        last = len(program.body) - 1
        steps = (StepSeconds(place, "", None, seconds * place, False) for place in (1, last))
        return ProgramProfile(tuple(steps), (), 1.0)


def test_every_instruction_has_the_seconds_of_its_fastest_run():
    stages = Stages(Options())
    program, _ = stages.plan(stages.lower(parse_module(TEXT)))
    last, quick, patient = len(program.body) - 1, Timer(), Timer()
    once = measure_steps(quick, program, LoadOptions(1), 1e-9)
    assert [(place, s) for place, s in enumerate(once) if s] == [(1, 0.001), (last, 0.001 * last)]
    again = measure_steps(patient, program, LoadOptions(1), 1.0)
    assert again == [second / 2 for second in once]
    assert len(quick.runs) == 1
    assert patient.runs[1] > patient.runs[0]


def test_the_cpu_measures_steps():
    stages = Stages(Options(threads=1))
    program, _ = stages.plan(stages.lower(parse_module(TEXT)))
    measured = measure_steps(stages.backend, program, LoadOptions(1), 0.001)
    assert len(measured) == len(program.body)
    assert sum(second > 0 for second in measured) == 2
