"""Normalizations of PyTorch."""

import pytest

torch = pytest.importorskip("torch")

from tests.frontends.torch.agreement import assert_agree, randn  # noqa: E402

F = torch.nn.functional


def test_norms_are_those_of_pytorch_and_stay_norms():
    weight = torch.nn.utils.parametrizations.weight_norm(torch.nn.Linear(4, 3))

    def normalize(layer, x, scale, bias, rows):
        return (
            F.batch_norm(x, bias, scale.abs(), scale, bias, eps=1e-3),
            F.batch_norm(x, bias, scale.abs()),
            F.batch_norm(x, None, None, training=True),
            F.layer_norm(rows, (3, 4), eps=1e-3),
            F.layer_norm(rows, (4,), scale, bias),
            F.group_norm(x, 2, scale, bias),
            F.group_norm(x, 4),
            F.instance_norm(x, weight=scale),
            F.rms_norm(rows, (4,), scale, 1e-3),
            F.rms_norm(rows, (3, 4)),
            F.local_response_norm(x, 3),
            torch.native_layer_norm(rows, (4,), scale, bias, 1e-5),
            torch.native_group_norm(x, scale, bias, 2, 4, 15, 2, 1e-5),
            torch.ops.aten._fused_rms_norm(rows, (4,), scale, 1e-5),
            layer(rows),
        )

    inputs = randn(2, 4, 3, 5), randn(4), 1 + randn(2, 2)[0].repeat(2), randn(2, 3, 4)
    model = assert_agree(normalize, *inputs, modules=[weight])
    text = model.ir("import")
    for name in ("batch_norm", "layer_norm", "group_norm", "rms_norm"):
        assert f"{name}(" in text
