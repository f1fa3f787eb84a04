"""Artifacts for GPUs that are not here: machine code, and the order of launches."""

from __future__ import annotations

import json

import numpy as np
import pytest

import afterglow as ag
from afterglow.support.errors import AfterglowError, UsageError
from tests.backends.cuda.test_programs import MODEL


@pytest.fixture(scope="module")
def artifact():
    return _artifact("sm_90")


def _artifact(target):
    model = ag.compile(ag.parse_module(MODEL), backend="cuda", target=target, cache=False)
    (version,) = model.versions()
    return version.compiled.artifact


@pytest.mark.parametrize("target", ["sm_80", "sm_89", "sm_90", "sm_100"])
def test_kernels_are_machine_code_of_the_target(target):
    artifact = _artifact(target)
    assert artifact.manifest["arch"] == int(target.removeprefix("sm_"))
    for kernel in artifact.manifest["kernels"].values():
        code = bytes(artifact.sections[kernel["section"]])
        assert code[:4] == b"\x7fELF"
        assert kernel["symbol"].encode() in code


def test_every_part_is_a_launch_or_a_step_of_the_host(artifact):
    for part in artifact.manifest["parts"]:
        assert ("kernel" in part) != ("host" in part)
        if "kernel" in part:
            assert part["kernel"] in artifact.manifest["kernels"]
            assert len(part["grid"]) == 3
            assert all(extent > 0 for extent in part["grid"])


def test_parameters_lie_within_their_memories(artifact):
    sizes = {
        "arena": artifact.manifest["arena_bytes"],
        "constants": len(artifact.sections["constants"]),
    }
    for part in artifact.manifest["parts"]:
        for memory, start in part.get("memory", ()):
            assert start < sizes.get(memory, start + 1)


def test_artifacts_are_deterministic(artifact):
    again = _artifact("sm_90")
    assert json.dumps(artifact.manifest) == json.dumps(again.manifest)
    assert {n: bytes(s) for n, s in artifact.sections.items()} == {
        n: bytes(s) for n, s in again.sections.items()
    }


def test_a_model_for_a_gpu_that_is_not_here_says_so_when_it_is_run(tmp_path):
    model = ag.compile(ag.parse_module(MODEL), backend="cuda", target="sm_90", cache=False)
    with pytest.raises(AfterglowError, match="CUDA"):
        model(np.zeros((4, 3), np.float32))


def test_the_gpu_of_a_machine_without_one_is_an_error_that_says_what_else_there_is():
    with pytest.raises(UsageError) as caught:
        ag.compile(ag.parse_module(MODEL), backend="cuda", cache=False)
    assert "sm_90" in str(caught.value)
    assert "emulated" in str(caught.value)


def test_an_unknown_target_lists_those_there_are():
    with pytest.raises(UsageError, match=r"there are host .*sm_80.*sm_90"):
        ag.compile(ag.parse_module(MODEL), backend="cuda", target="sm_7", cache=False)
