"""PyTorch's programs as definitions, compiled and compared with PyTorch."""

import pytest

torch = pytest.importorskip("torch")

import numpy as np  # noqa: E402
from torch._higher_order_ops.while_loop import while_loop  # noqa: E402
from torch.export import Dim  # noqa: E402

import afterglow as ag  # noqa: E402
from afterglow.runtime.torch_tensors import array_of, tensor_of  # noqa: E402


class Nested(torch.nn.Module):
    """Takes and returns nested values, whose names are those of ops and inputs, too."""

    def __init__(self):
        super().__init__()
        self.hidden = torch.nn.Linear(4, 4)
        self.tied = torch.nn.Linear(4, 4)
        self.tied.weight = self.hidden.weight

    def forward(self, x, past, *, scale, count=7):
        h = torch.relu(self.tied(self.hidden(x)))
        return {"relu": h * scale, "past": [(h, past[0]["key"])], "count": count, "none": None}


def named(model, *arrays):
    outputs = model(*arrays)
    outputs = outputs if isinstance(outputs, tuple) else (outputs,)
    return dict(zip((info.name for info in model.outputs), outputs, strict=True))


def test_a_program_takes_and_returns_nested_values_by_name():
    net, x, key, scale = Nested(), torch.randn(2, 4), torch.randn(3), torch.tensor(2.0)
    batch = {0: Dim("batch", min=2, max=16)}
    shapes = {"x": batch, "past": [{"key": {0: Dim.DYNAMIC}}], "scale": None}
    program = torch.export.export(net, (x, [{"key": key}]), {"scale": scale}, dynamic_shapes=shapes)
    model = ag.compile(program)
    assert [str(info) for info in model.inputs] == [
        "x: f32[batch, 4]",
        "past.0.key: f32[past.0.key_dim_0]",
        "scale: f32[]",
    ]
    assert [str(info) for info in model.outputs][:2] == [
        "relu: f32[batch, 4]",
        "past.0.0: f32[batch, 4]",
    ]
    dims = {"batch": 2, "past.0.key_dim_0": 3}
    found = named(ag.compile(program, dims=dims, backend="interpreter"), x, key, scale)
    expected = net(x, [{"key": key}], scale=scale)
    assert list(found) == ["relu", "past.0.0", "past.0.1", "count"]
    torch.testing.assert_close(found["relu"], expected["relu"])
    torch.testing.assert_close(found["past.0.0"], expected["past"][0][0])
    assert found["past.0.1"].tolist() == key.tolist()
    assert found["count"].item() == 7
    assert "tied.weight" not in ag.import_model(program, dims=dims).constants


class Counter(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("count", torch.tensor(3.0))
        self.register_buffer("total", torch.zeros(2))

    def forward(self, x):
        self.count += 1
        self.total.add_(x)
        return self.total * self.count


def test_buffers_that_a_program_writes_are_state_with_their_first_values(tmp_path):
    net, x = Counter(), torch.ones(2)
    model = ag.compile(torch.export.export(net, (x,)))
    assert [info.name for info in model.inputs] == ["x"]
    runs = [model(x).tolist() for _ in range(3)]
    assert runs == [[4.0, 4.0], [10.0, 10.0], [18.0, 18.0]]
    model.reset()
    assert model(x).tolist() == runs[0]
    model.save(tmp_path / "counter.agc")
    assert ag.load(tmp_path / "counter.agc")(x).tolist() == runs[0]


def test_state_in_a_model_of_several_shapes_is_refused():
    class Sums(Counter):
        def forward(self, x):
            self.count += 1
            return x * self.count

    program = torch.export.export(Sums(), (torch.ones(4),), dynamic_shapes=({0: Dim("n")},))
    with pytest.raises(ag.UsageError, match="must be one program for all shapes"):
        ag.compile(program)
    model = ag.compile(program, dims={"n": (1, 8)}, backend="interpreter")
    assert [model(torch.ones(n)).tolist() for n in (1, 2)] == [[4.0], [5.0, 5.0]]


class Control(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(3, 3) / 3)

    def forward(self, x, i):
        def body(i, x):
            return i + 1, torch.cond(i < 2, lambda x: x @ self.weight, lambda x: x * 2, (x,))

        return while_loop(lambda i, x: i < 4, body, (i, x))


def test_control_flow_is_imported_with_what_bodies_capture():
    net, x = Control(), torch.randn(2, 3)
    model = ag.compile(net, (x, torch.tensor(0)), backend="interpreter")
    for start in (0, 3, 5):
        i = torch.tensor(start)
        for found, expected in zip(model(x, i), net(x, i), strict=True):
            torch.testing.assert_close(found, expected.detach())


class Bessel(torch.nn.Module):
    def forward(self, x):
        return torch.special.bessel_j0(torch.relu(x))


def test_an_error_names_the_node_the_op_and_the_line():
    with pytest.raises(ag.UnsupportedError) as caught:
        ag.compile(Bessel(), (torch.ones(2),))
    line = Bessel.forward.__code__.co_firstlineno + 1
    where = f"in node 'bessel_j0' (prims::bessel_j0.default), at test_translate.py:{line}"
    assert caught.value.where == where


def test_an_input_that_is_written_is_returned():
    class Writes(torch.nn.Module):
        def forward(self, x, cache):
            cache.add_(x)
            return x * 2

    model = ag.compile(Writes(), (torch.ones(2), torch.ones(2)))
    found = named(model, torch.ones(2), torch.ones(2))
    assert {name: value.tolist() for name, value in found.items()} == {
        "output": [2.0, 2.0],
        "cache.next": [2.0, 2.0],
    }


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.int32, torch.bool])
def test_tensors_become_arrays_and_back(dtype):
    tensor = torch.tensor([[0, 1, 2], [3, 4, 5]]).to(dtype)
    array = array_of(tensor.T)
    assert array.shape == (3, 2)
    assert torch.equal(tensor_of(np.ascontiguousarray(array)), tensor.T)
