"""PyTorch's own samples of ops: some of them, all in one program.

`benchmarks/torch_ops.py` runs all of them.
"""

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("expecttest", reason="PyTorch's own tests need it")

from tests.frontends.torch.op_samples import (  # noqa: E402
    Calls,
    Outcome,
    calls_of,
    core_without_importer,
    full_name,
    judge,
    op_infos,
)

pytestmark = pytest.mark.slow  # PyTorch's table of ops alone takes seconds to import

OPS = {
    *("add", "atan2", "cat", "clamp", "cummax", "diagonal_scatter", "div.floor_rounding", "einsum"),
    *("flip", "gather", "index_add", "index_put", "linalg.vector_norm.", "logcumsumexp", "lerp"),
    *("masked_scatter", "max.reduction_with_dim", "pow", "roll", "scatter_reduce.amax", "select"),
    *("slice_scatter", "sort", "std_mean", "take_along_dim", "tril", "unfold", "var", "where"),
}


def test_samples_of_pytorchs_own_tests_agree():
    infos = [op for op in op_infos(torch.float32) if full_name(op) in OPS]
    calls = [call for op in infos for call in calls_of(op, torch.float32, 2)]
    assert judge(infos[0], Calls(calls)) == (Outcome.RIGHT, "")


def test_core_aten_is_imported_but_for_a_few():
    assert set(core_without_importer()) <= {
        *("_fft_c2r.default", "_fft_r2c.default", "atan2.out", "embedding_dense_backward.default"),
        *("native_group_norm_backward.default", "native_layer_norm_backward.default"),
        "sym_is_contiguous.default",
    }
