"""Modules, programs and files of PyTorch as sources."""

import pytest

torch = pytest.importorskip("torch")

import numpy as np  # noqa: E402

import afterglow as ag  # noqa: E402


@pytest.fixture(scope="module")
def net():
    layers = torch.nn.Linear(4, 8), torch.nn.Dropout(0.5), torch.nn.Linear(8, 3)
    return torch.nn.Sequential(*layers).train()


@pytest.fixture(scope="module")
def file(net, tmp_path_factory):
    path = tmp_path_factory.mktemp("torch") / "net.bin"
    with torch.no_grad():
        torch.export.save(torch.export.export(net.eval(), (torch.ones(2, 4),)), path)
    net.train()
    return path


def test_a_module_is_compiled_in_evaluation_mode_and_stays_in_training(net):
    x = torch.randn(2, 4)
    model = ag.compile(net, x)
    assert net.training
    assert net[1].training
    expected = net[2](net[0](x)).detach()
    found = model(x)
    assert isinstance(found, torch.Tensor)
    torch.testing.assert_close(found, expected)
    assert isinstance(model(x.numpy()), np.ndarray)


def test_a_saved_program_is_known_by_its_content(net, file):
    x = torch.randn(2, 4)
    expected = net[2](net[0](x)).detach()
    torch.testing.assert_close(ag.compile(file)(x), expected)
    torch.testing.assert_close(ag.compile(file.read_bytes())({"input": x}), expected)


def test_a_damaged_program_is_refused(file):
    data = file.read_bytes()
    with pytest.raises(ag.ModelError, match="its archive does not end as it should"):
        ag.compile(data[:100] + b"models/model.json")


def test_what_cannot_be_traced_is_refused(net):
    with pytest.raises(ag.UsageError, match="is traced with example inputs"):
        ag.compile(net)
    with pytest.raises(ag.UsageError, match="are for modules of PyTorch, got a str"):
        ag.compile("model.onnx", (torch.ones(1),))
    with pytest.raises(ag.UsageError, match="a int is no model of PyTorch"):
        ag.from_torch(3)
    with pytest.raises(ag.UsageError, match="not the arguments of the module: too many"):
        ag.compile(net, (torch.ones(1), torch.ones(1)))
    assert net.training


def test_examples_of_a_wrong_shape_are_refused_without_a_traceback_in_the_log(net, caplog):
    with pytest.raises(ag.UnsupportedError, match="help: see that the module runs on these inputs"):
        ag.compile(torch.nn.Linear(4, 3), (torch.ones(2, 5),))
    assert not caplog.records


def test_examples_may_be_arrays():
    linear = torch.nn.Linear(2, 2)
    x = np.ones((1, 2), np.float32)
    expected = linear(torch.from_numpy(x)).detach().numpy()
    np.testing.assert_allclose(ag.compile(linear, {"input": x})(x), expected, rtol=1e-5)


class Mixes(torch.nn.Module):
    def __init__(self, weight):
        super().__init__()
        self.register_buffer("weight", weight)

    def forward(self, x):
        return torch.sparse.mm(self.weight, x)


def test_sparse_weights_are_refused():
    with pytest.raises(ag.UnsupportedError, match="sparse"):
        ag.compile(Mixes(torch.eye(2).to_sparse()), (torch.ones(2, 2),))


def test_tensors_without_elements_are_refused_in_calls():
    model = ag.compile(torch.nn.ReLU(), (torch.ones(2, 2),))
    for tensor in (torch.eye(2).to_sparse(), torch.ones(2, 2, device="meta")):
        with pytest.raises(ag.UsageError, match="no elements in rows and columns"):
            model(tensor)


def test_weights_that_are_not_there_are_named():
    linear = torch.nn.Linear(2, 2, device="meta")
    with pytest.raises(ag.ModelError) as caught:
        ag.compile(linear, (torch.ones(1, 2, device="meta"),))
    assert "tensor 'weight': it is on the device 'meta': it has no elements" in str(caught.value)
