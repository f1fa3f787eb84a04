"""Activation functions of PyTorch."""

import pytest

torch = pytest.importorskip("torch")

from tests.frontends.torch.agreement import assert_agree, randn  # noqa: E402

F = torch.nn.functional


def test_activations_are_those_of_pytorch_and_stay_whole():
    def activate(x, slope):
        return (
            F.relu(x),
            F.relu6(4 * x),
            F.gelu(x),
            F.gelu(x, approximate="tanh"),
            F.silu(x),
            F.mish(x),
            F.elu(x, 0.5),
            torch.ops.aten.elu(x, 0.5, 2.0, 0.3),
            F.selu(x),
            F.celu(x, 2),
            F.leaky_relu(x, 0.2),
            F.prelu(x, slope),
            F.prelu(x, slope[:1]),
            F.hardswish(3 * x),
            F.hardsigmoid(3 * x),
            F.hardtanh(x, -0.5, 0.7),
            F.softplus(x),
            F.softplus(x, beta=2, threshold=1),
            F.softshrink(x, 0.3),
            F.hardshrink(x),
            F.threshold(x, 0.1, 20),
            F.glu(x, 1),
            torch.sigmoid(x),
            torch.sigmoid(x.int()),
            F.logsigmoid(x),
            F.softmax(x, 1),
            F.softmax(x, 1, dtype=torch.float64),
            F.log_softmax(x, -1),
            F.softmax(x[0, 0, 0], 0),
            torch._safe_softmax(torch.full((2, 3), float("-inf")), 0),
            F.rrelu(x),
        )

    model = assert_agree(activate, randn(2, 4, 3), randn(4))
    text = model.ir("import")
    for name in ("gelu", "swish", "mish", "hard_swish", "softmax", "log_softmax", "elu", "prelu"):
        assert f"{name}(" in text
