"""PyTorch's programs as definitions, compiled and compared with PyTorch."""

import pytest

torch = pytest.importorskip("torch")

import numpy as np  # noqa: E402

import afterglow as ag  # noqa: E402


class Perceptron(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.hidden = torch.nn.Linear(4, 8)
        self.head = torch.nn.Linear(8, 3)

    def forward(self, x):
        h = torch.relu(self.hidden(x))
        return {"logits": self.head(h), "past": [(h, x)], "count": 7, "nothing": None}


def test_an_exported_program_computes_what_pytorch_does():
    net, x = Perceptron(), torch.randn(2, 4)
    model = ag.compile(torch.export.export(net, (x,)))
    names = [info.name for info in model.outputs]
    found = dict(zip(names, model(x=x.numpy()), strict=True))
    expected = net(x)
    assert names == ["logits", "past.0.0", "past.0.1", "count"]
    np.testing.assert_allclose(found["logits"], expected["logits"].detach(), rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(found["past.0.1"], x)
    assert found["count"] == 7
