"""Whole programs on the first OpenCL device; few, because its driver takes long to compile."""

from __future__ import annotations

import numpy as np
import pytest

import afterglow as ag
from afterglow.graph import Builder, Function
from afterglow.support.errors import IndexRangeError
from afterglow.testing.arrays import assert_close
from afterglow.testing.case_functions import owned
from afterglow.testing.cases import CASES
from tests.frontends.models import info, node
from tests.frontends.models import model as model_of

pytestmark = pytest.mark.usefixtures("opencl_device")

TRIED = (
    *("add", "where", "gelu", "cast", "mod", "transpose", "iota", "reduce_max", "matmul", "conv"),
    *("softmax", "layer_norm", "byte_table", "max_pool", "avg_pool", "gather", "top_k"),
)


def _case_program():
    """A case of each of many ops in one function, its inputs, and the results it must give."""
    cases = {case.op.mnemonic: case for case in CASES if case.op.mnemonic in TRIED}.values()
    f = Function("main")
    inputs, wanted, tolerances = [], [], []
    for number, case in enumerate(cases):
        arrays = case.inputs()
        operands = [
            None if type is None else f.input(f"x{number}_{i}", type)
            for i, type in enumerate(case.types)
        ]
        for result in Builder(f).emit_all(owned(case.op, f), *operands):
            f.output(f"y{len(tolerances)}", result)
            tolerances.append(max(case.tolerance, 1e-5))
        inputs += [array for array in arrays if array is not None]
        wanted += case.wanted()
    return f.module, inputs, wanted, tolerances


@pytest.mark.filterwarnings("ignore")
def test_ops_compute_what_they_are_defined_to():
    module, inputs, wanted, tolerances = _case_program()
    results = ag.compile(module, backend="opencl", cache=False).run(
        None, {f.name: x for f, x in zip(module.functions["main"].inputs, inputs, strict=True)}
    )
    for got, right, tolerance in zip(results, wanted, tolerances, strict=True):
        assert_close([got], [right], tolerance)
    assert len(results) == len(wanted)


MODEL = """
    const @weight : f32[3, 5] = [1, 0, -1, 2, 1, 0.5, 3, 2, 1, 0, -2, 4, 0.25, 1, 1]
    func @main(%x: f32[4, 3]) {
      %product = matmul(%x, @weight) : f32[4, 5]
      %right = relu(%product) : f32[4, 5]
      %found, %at = top_k(%right) {k = 5, axis = -1, largest = true, sorted = false}
        : f32[4, 5], i64[4, 5]
      %y = add(%found, %right) : f32[4, 5]
      return %y
    }
"""


@pytest.fixture(scope="module")
def model():
    return ag.compile(ag.parse_module(MODEL), backend="opencl", cache=False)


X = np.linspace(-2, 2, 12, dtype=np.float32).reshape(4, 3)


def test_what_has_no_kernel_runs_on_the_host_between_kernels(model):
    wanted = ag.compile(ag.parse_module(MODEL), backend="interpreter", cache=False)(X)
    np.testing.assert_allclose(model(X), wanted, rtol=1e-6)


def test_a_product_and_what_follows_it_are_one_kernel(model):
    assert "void matmul_relu_" in model.ir("opencl")


def test_a_saved_model_gives_the_same(model, tmp_path):
    model.save(tmp_path / "model.agc")
    assert np.array_equal(ag.load(tmp_path / "model.agc")(X), model(X))


def test_a_model_with_a_dynamic_dimension_is_compiled_for_each_extent_and_says_why():
    source = model_of(
        [node("Softmax", ["x"], ["y"])],
        inputs=[info("x", ("rows", 3))],
        outputs=[info("y", ("rows", 3))],
    )
    model = ag.compile(source, backend="opencl", cache=False)
    for rows in (4, 2, 0):
        np.testing.assert_allclose(model(X[:rows]).sum(1), np.ones(rows), rtol=1e-6)
    assert model.dims == {}
    assert model.refused_ranges == {
        "rows": "backend 'opencl' has no programs for ranges of extents"
    }


def test_a_driver_that_keeps_what_it_compiled_is_not_asked_for_it(model, opencl_device):
    (version,) = model.versions()
    assert ("binary" in version.compiled.artifact.sections) != opencl_device.keeps_programs


def test_an_index_out_of_range_is_an_error_of_that_run_alone():
    module = ag.parse_module("""
        const @table : f32[5, 2] = [1, 0, -1, 2, 1, 0.5, 3, 2, 1, 0]
        func @main(%x: i64[2]) {
          %y = gather(@table, %x) {axis = 0} : f32[2, 2]
          return %y
        }
    """)
    model = ag.compile(module, backend="opencl", cache=False)
    with pytest.raises(IndexRangeError) as caught:
        model(np.array([0, 7]))
    assert str(caught.value) == (
        "error: gather: indices must be from -5 to 4, got 7\n"
        "  in node 'y'\n"
        "  help: compile with unchecked=True to use the nearest valid index instead"
    )
    assert model(np.array([0, -1])).tolist() == [[1, 0], [1, 0]]
