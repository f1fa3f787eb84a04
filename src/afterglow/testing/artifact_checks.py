"""What a backend promises of its targets, its plans, its artifacts and its capabilities."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from afterglow.backends.backend import Settings
from afterglow.backends.capabilities import (
    HostFallback,
    Listing,
    Profiling,
    Tuning,
    Verifying,
)
from afterglow.driver.api import compile
from afterglow.driver.load import load
from afterglow.instr import Program, print_program
from afterglow.runtime.artifact import Artifact
from afterglow.runtime.device import LoadOptions
from afterglow.support.errors import UsageError
from afterglow.testing.arrays import assert_close, assert_identical
from afterglow.testing.base import Checks
from afterglow.testing.samples import LAYER, module
from afterglow.types import Array

_NO_SUCH_TARGET = "no-such-target"


class ArtifactChecks(Checks):
    """The half of the contract that needs no device: what a `Backend` gives to the compiler."""

    def test_targets_have_names(self) -> None:
        """The factory lists its targets, the default first, each once, and refuses others."""
        targets = self.factory.targets()
        names = [target.name for target in targets]
        assert names
        assert len(set(names)) == len(names)
        for target in targets:
            assert target.summary
            json.dumps(dict(target.facts))
        assert self.factory.name == self.backend
        with pytest.raises(UsageError):
            self.factory(Settings(target=_NO_SUCH_TARGET))

    def test_the_target_runs_here(self) -> None:
        """The target under test lacks nothing, has a main memory and a name."""
        target = self.made_backend().target
        assert not list(target.missing_here())
        assert target.memories[0].name == ""
        assert str(target)

    def test_the_same_program_is_compiled_twice_to_the_same_artifact(self) -> None:
        """Plans, manifest and sections depend on nothing but the program and the settings."""
        first, second = self._planned(), self._planned()
        assert print_program(first) == print_program(second)
        artifacts = [self.made_backend().compile(program) for program in (first, second)]
        assert len({json.dumps(dict(a.manifest), sort_keys=True) for a in artifacts}) == 1
        contents = [{name: bytes(s) for name, s in a.sections.items()} for a in artifacts]
        assert contents[0] == contents[1]

    def test_an_artifact_is_data(self) -> None:
        """The manifest is what JSON can hold, sections are bytes, and all that is needed."""
        artifact = self.made_backend().compile(self._planned())
        assert artifact.device == self.factory.device == self.device.name
        manifest = json.loads(json.dumps(dict(artifact.manifest)))
        sections = {name: bytes(section) for name, section in artifact.sections.items()}
        again = Artifact(artifact.device, artifact.interface, artifact.plan, manifest, sections)
        results = [self.device.load(each).run([_x()], {}) for each in (artifact, again)]
        assert_identical(results[1], results[0])

    def test_a_saved_model_gives_the_same_bits(self, tmp_path: Path) -> None:
        """A file holds all that running needs, and loads without the source."""
        model = compile(module(LAYER), backend=self.backend, target=self.target, cache=False)
        path = tmp_path / "model.agc"
        model.save(path)
        assert_identical(load(path).run(None, {"x": _x()}), model.run(None, {"x": _x()}))

    def test_listings_show_code(self) -> None:
        """Every language that the backend names has a listing, the same each time."""
        backend = self.made_backend()
        if not isinstance(backend, Listing):
            pytest.skip("the backend has no listings")
        program = self._planned()
        for language in backend.languages:
            text = backend.listing(program, language)
            assert text.strip()
            assert text == self.made_backend().listing(program, language)  # type: ignore[attr-defined]

    def test_verified_runs_give_the_same(self) -> None:
        """A run that compares each instruction with its definition finds no difference."""
        backend = self.made_backend()
        if not isinstance(backend, Verifying):
            pytest.skip("the backend verifies nothing")
        program = self._planned()
        checked = backend.verifying(program, LoadOptions()).run([_x()], {})
        plain = self.device.load(backend.compile(program)).run([_x()], {})
        assert_close(checked, plain, self.tolerance)

    def test_profiles_time_each_instruction(self) -> None:
        """The seconds of every instruction, in the program's order."""
        backend = self.made_backend()
        if not isinstance(backend, Profiling):
            pytest.skip("the backend profiles nothing")
        profile = backend.profile(self._planned(), [_x()], {}, LoadOptions(), 1)
        assert profile.run_seconds > 0
        steps = profile.steps
        assert steps
        assert all(step.seconds >= 0 for step in steps)
        places = [step.place for step in steps]
        assert places == sorted(places)

    def test_what_the_host_runs_is_of_the_program(self) -> None:
        """Each instruction that runs on the host is the program's, with a reason."""
        backend = self.made_backend()
        if not isinstance(backend, HostFallback):
            pytest.skip("the host runs nothing for the backend")
        program = self._planned()
        for step, reason in backend.host_steps(program):
            assert step in program.body
            assert reason

    def test_what_is_tuned_has_several_plans(self) -> None:
        """The first plan of a choice is the one that the backend would take."""
        backend = self.made_backend()
        if not isinstance(backend, Tuning):
            pytest.skip("the backend tunes nothing")
        for choice in backend.choices(self._planned()):
            variants = [plan.variant for plan in choice.plans]
            assert choice.best == variants[0]
            assert len(set(variants)) == len(variants)

    def _planned(self) -> Program:
        """The sample program with its kernels and its memory."""
        stages = self.stages()
        return stages.plan(stages.lower(stages.optimise(module(LAYER))))[0]


def _x() -> Array:
    return np.linspace(-2, 3, 6, dtype=np.float32).reshape(2, 3)
