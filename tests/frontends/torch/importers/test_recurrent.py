"""Recurrent layers of PyTorch, which stay whole."""

import pytest

torch = pytest.importorskip("torch")

from tests.frontends.torch.agreement import assert_agree, randn  # noqa: E402


def test_layers_have_directions_biases_and_projections():
    layers = [
        torch.nn.LSTM(4, 5, bidirectional=True),
        torch.nn.LSTM(4, 5, batch_first=True, bias=False),
        torch.nn.LSTM(4, 5, proj_size=3, bidirectional=True),
        torch.nn.GRU(4, 5, num_layers=2, bidirectional=True),
        torch.nn.RNN(4, 5, nonlinearity="relu"),
    ]

    def apply(*parts):
        *layers, x = parts
        return [layer(x) for layer in layers]

    text = assert_agree(apply, randn(3, 2, 4), modules=layers).ir("import")
    assert [text.count(f" {name}(") for name in ("lstm", "gru", "rnn")] == [3, 4, 1]
