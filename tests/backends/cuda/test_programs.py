"""Whole programs, whose kernels run on the processor by Triton's interpreter."""

from __future__ import annotations

import numpy as np
import pytest

import afterglow as ag
from afterglow.graph import Builder, Function
from afterglow.support.errors import IndexRangeError
from afterglow.testing.arrays import assert_close
from afterglow.testing.case_functions import owned
from afterglow.testing.cases import CASES
from tests.backends.launched.test_repeated import FIRST
from tests.backends.launched.test_repeated import MODEL as SCAN
from tests.backends.launched.test_repeated import X as ROWS
from tests.frontends.models import info, node
from tests.frontends.models import model as model_of

TRIED = (
    *("add", "where", "gelu", "cast", "mod", "transpose", "iota", "reduce_max", "matmul", "conv"),
    *("softmax", "layer_norm", "byte_table", "max_pool", "avg_pool", "gather", "top_k"),
)


def compiled(source, **options):
    return ag.compile(source, backend="cuda", target="emulated", cache=False, **options)


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
    results = compiled(module).run(
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
X = np.linspace(-2, 2, 12, dtype=np.float32).reshape(4, 3)


@pytest.fixture(scope="module")
def model():
    return compiled(ag.parse_module(MODEL))


def test_what_has_no_kernel_runs_on_the_host_between_kernels(model):
    wanted = ag.compile(ag.parse_module(MODEL), backend="interpreter", cache=False)(X)
    np.testing.assert_allclose(model(X), wanted, rtol=1e-6)


def test_a_product_and_what_follows_it_are_one_kernel(model):
    assert "def matmul_relu_" in model.ir("triton")


def test_runs_give_equal_bits(model):
    assert np.array_equal(model(X), model(X))


def test_a_saved_model_gives_the_same(model, tmp_path):
    model.save(tmp_path / "model.agc")
    assert np.array_equal(ag.load(tmp_path / "model.agc")(X), model(X))


def test_a_model_with_a_dynamic_dimension_is_compiled_for_each_extent():
    source = model_of(
        [node("Softmax", ["x"], ["y"])],
        inputs=[info("x", ("rows", 3))],
        outputs=[info("y", ("rows", 3))],
    )
    model = compiled(source)
    for rows in (4, 2, 0):
        np.testing.assert_allclose(model(X[:rows]).sum(1), np.ones(rows), rtol=1e-6)
    assert model.dims == {}


def test_an_index_out_of_range_is_an_error():
    module = ag.parse_module("""
        func @main(%x: f32[4, 3], %at: i64[2]) {
          %y = gather(%x, %at) {axis = 0} : f32[2, 3]
          return %y
        }
    """)
    model = compiled(module)
    assert np.array_equal(model(X, np.array([3, -4])), X[[3, 0]])
    with pytest.raises(IndexRangeError, match="4"):
        model(X, np.array([0, 4]))
    assert np.array_equal(model(X, np.array([1, 2])), X[[1, 2]])


@pytest.mark.parametrize("precision", ["float16", "bfloat16"])
def test_narrow_floats_are_stored_and_computed_in_f32(precision):
    rng = np.random.default_rng(0)
    module = ag.parse_module("""
        func @main(%x: f32[32, 64], %w: f32[64, 48], %b: f32[48]) {
          %p = matmul(%x, %w) : f32[32, 48]
          %s = add(%p, %b) : f32[32, 48]
          %y = relu(%s) : f32[32, 48]
          return %y
        }
    """)
    x, w, b = (rng.standard_normal(shape).astype(np.float32) for shape in ((32, 64), (64, 48), 48))
    got = compiled(module, precision=precision)(x, w, b)
    np.testing.assert_allclose(got, np.maximum(x @ w + b, 0), atol=0.3)


@pytest.mark.parametrize("verify", [False, True])
def test_the_iterations_of_a_scan_are_kernels(verify):
    model = compiled(ag.parse_module(SCAN), verify=verify)
    assert "def matmul_" in model.ir("triton")
    wanted = ag.compile(ag.parse_module(SCAN), backend="interpreter", cache=False)(FIRST, ROWS)
    for got, right in zip(model(FIRST, ROWS), wanted, strict=True):
        np.testing.assert_allclose(got, right, rtol=1e-6)
