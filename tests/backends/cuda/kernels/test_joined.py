"""Several kernels as one launch: what it computes, what it is compiled to, how many there are."""

from __future__ import annotations

import re

import numpy as np
import pytest

import afterglow as ag
from afterglow.backends.cuda.codegen import generate
from afterglow.backends.cuda.compile import compile_kernels
from afterglow.backends.cuda.kernels.joined import MOST
from afterglow.backends.cuda.target import kind_of
from afterglow.driver.options import Options
from afterglow.driver.stages import Stages
from afterglow.report.profile import profile
from afterglow.runtime.device import LoadOptions

MODEL = """
    func @main(%past: f16[1, 2, 7, 32], %new: f16[1, 1, 64], %x: f32[2, 40], %y: f32[2, 24]) {
      %row = reshape(%new) {shape = (1, 1, 2, 32)} : f16[1, 1, 2, 32]
      %token = transpose(%row) {perm = (0, 2, 1, 3)} : f16[1, 2, 1, 32]
      %cache = concat(%past, %token) {axis = 2} : f16[1, 2, 8, 32]
      %both = concat(%x, %y) {axis = 1} : f32[2, 64]
      %turned = transpose(%x) {perm = (1, 0)} : f32[40, 2]
      return %cache, %both, %turned
    }
"""


def _inputs():
    random = np.random.default_rng(3)
    shapes = [(1, 2, 7, 32), (1, 1, 64), (2, 40), (2, 24)]
    types = [np.float16, np.float16, np.float32, np.float32]
    return [random.standard_normal(s).astype(t) for s, t in zip(shapes, types, strict=True)]


def _compiled(text, **options):
    return ag.compile(ag.parse_module(text), backend="cuda", cache=False, **options)


def _parts(model):
    (version,) = model.versions()
    return version.compiled.artifact.manifest["parts"]


def test_copies_that_need_nothing_of_each_other_are_one_launch():
    model = _compiled(MODEL, target="emulated")
    (part,) = _parts(model)
    assert len(part["places"]) == 5
    past, new, x, y = _inputs()
    cache, both, turned = model(past, new, x, y)
    token = new.reshape(1, 1, 2, 32).transpose(0, 2, 1, 3)
    np.testing.assert_array_equal(cache, np.concatenate([past, token], 2))
    np.testing.assert_array_equal(both, np.concatenate([x, y], 1))
    np.testing.assert_array_equal(turned, x.T)


def test_each_step_of_a_launch_is_compared_when_kernels_are_verified():
    model = _compiled(MODEL, target="emulated", verify=True)
    np.testing.assert_array_equal(model(*_inputs())[2], _inputs()[2].T)


def test_a_profile_has_one_time_for_a_launch():
    stages = Stages(Options(backend="cuda", target="emulated"))
    program, _ = stages.plan(stages.lower(stages.optimise(ag.parse_module(MODEL))))
    (step,) = profile(stages.backend, program, _inputs(), LoadOptions(1), repeat=1).steps
    assert "_and_4_more_" in step.kernel
    moved = sum(array.nbytes for array in _inputs())
    assert step.bytes == 2 * moved + 2 * _inputs()[2].nbytes


def test_alike_kernels_of_a_launch_have_one_function():
    text = """
        func @main(%a: f32[2, 3], %b: f32[2, 3]) {
          %x = transpose(%a) {perm = (1, 0)} : f32[3, 2]
          %y = transpose(%b) {perm = (1, 0)} : f32[3, 2]
          return %x, %y
        }
    """
    source = _compiled(text, target="emulated").ir("triton")
    assert len(re.findall(r"^def ", source, re.MULTILINE)) == 2


def test_a_launch_has_some_kernels_at_most():
    count = 2 * MOST + 1
    inputs = ", ".join(f"%x{n}: f32[2, 3]" for n in range(count))
    moved = "\n".join(
        f"%y{n} = transpose(%x{n}) {{perm = (1, 0)}} : f32[3, 2]" for n in range(count)
    )
    results = ", ".join(f"%y{n}" for n in range(count))
    model = _compiled(f"func @main({inputs}) {{ {moved}\n return {results} }}", target="emulated")
    assert [len(part["places"]) for part in _parts(model)] == [MOST, MOST, 1]


def test_an_index_out_of_range_in_a_joined_kernel_is_found():
    text = """
        func @main(%table: f32[5, 4], %at: i64[2], %x: f32[2, 3]) {
          %rows = gather(%table, %at) {axis = 0} : f32[2, 4]
          %y = transpose(%x) {perm = (1, 0)} : f32[3, 2]
          return %rows, %y
        }
    """
    model = _compiled(text, target="emulated")
    assert len(_parts(model)) == 1
    table, x = np.ones((5, 4), np.float32), np.ones((2, 3), np.float32)
    model(table, np.array([0, 4]), x)
    with pytest.raises(ag.AfterglowError, match="5"):
        model(table, np.array([0, 5]), x)


@pytest.mark.parametrize("arch", ["sm_90", pytest.param("sm_80", marks=pytest.mark.slow)])
def test_a_launch_is_compiled_to_code_that_spills_nothing(arch):
    stages = Stages(Options(backend="cuda", target=arch))
    program, _ = stages.plan(stages.lower(stages.optimise(ag.parse_module(MODEL))))
    kernels = [*generate(program, kind_of(arch)).kernels.values()]
    (compiled,) = compile_kernels(kernels, kind_of(arch)).values()
    assert compiled.stack == 0
    assert compiled.registers <= 40
