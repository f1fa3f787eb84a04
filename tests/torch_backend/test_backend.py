"""`torch.compile(model, backend="afterglow")`: graphs, sizes, weights that change, gradients."""

from __future__ import annotations

import warnings

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from afterglow.support.errors import AfterglowWarning  # noqa: E402
from afterglow.torch_backend import graph_call  # noqa: E402


@pytest.fixture(autouse=True)
def _anew():
    torch._dynamo.reset()
    graph_call._said.clear()
    torch.manual_seed(0)


@pytest.fixture
def compilations(monkeypatch):
    """The number of graphs that are compiled, counted."""
    seen = []
    own = graph_call.compile

    def counted(source, **options):
        seen.append(options["dims"])
        return own(source, **options)

    monkeypatch.setattr(graph_call, "compile", counted)
    return seen


def compiled(model, **options):
    return torch.compile(model, backend="afterglow", options=options or None)


class _Silent(warnings.catch_warnings):
    """Turns the warning that a graph runs in PyTorch into an error."""

    def __enter__(self):
        entered = super().__enter__()
        warnings.simplefilter("error", AfterglowWarning)
        return entered


def small_net() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(2, 4, 3, padding=1),
        nn.BatchNorm2d(4),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(16, 5),
        nn.LayerNorm(5),
    )


def test_one_program_serves_all_batches_within_bounds(compilations):
    net = small_net().eval()
    ours = compiled(net)
    with torch.no_grad(), _Silent():
        for batch in (3, 5, 9, 64, 65):
            x = torch.randn(batch, 2, 4, 4)
            torch.testing.assert_close(ours(x), net(x))
    assert [len(dims) for dims in compilations] == [0, 1, 1]  # static, up to 64, up to 128
    assert [high for dims in compilations for _, high in dims.values()] == [64, 128]


def test_weights_that_change_are_seen():
    net = nn.Linear(3, 3).eval()
    ours = compiled(net)
    x = torch.randn(2, 3)
    with torch.no_grad(), _Silent():
        ours(x)
        net.weight.data.mul_(2)  # which PyTorch does not count as a change
        torch.testing.assert_close(ours(x), net(x))
        net.weight.copy_(torch.randn(3, 3))
        torch.testing.assert_close(ours(x), net(x))
        net.bias.data = torch.ones(3)
        torch.testing.assert_close(ours(x), net(x))


def test_forward_and_backward_graphs_give_pytorchs_gradients_and_statistics():
    net = small_net().train()
    before = {name: value.clone() for name, value in net.state_dict().items()}

    def trained(model):
        net.load_state_dict(before)
        net.zero_grad()
        model(torch.arange(96.0).reshape(3, 2, 4, 4).sin()).square().sum().backward()
        return [p.grad.clone() for p in net.parameters()], net[1].running_var.clone()

    gradients, variance = trained(net)
    with _Silent():
        ours, our_variance = trained(compiled(net))
    torch.testing.assert_close(ours, gradients, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(our_variance, variance)


def test_graph_breaks_leave_python_between_two_graphs(compilations, capsys):
    def model(x):
        y = x * 2 + 1
        print("in between")
        return y.relu() - x

    x = torch.randn(4)
    with torch.no_grad(), _Silent():
        torch.testing.assert_close(compiled(model)(x), model(x))
    assert len(compilations) == 2
    assert capsys.readouterr().out.count("in between") == 2


def test_inputs_that_are_written_and_views_that_are_returned_are_pytorchs():
    def model(x, y):
        y.add_(x)
        return y[1:], x.t(), 3

    x, y, z = torch.randn(2, 2), torch.zeros(2, 2), torch.zeros(2, 2)
    with torch.no_grad(), _Silent():
        ours, own = compiled(model)(x, y), model(x, z)
    torch.testing.assert_close(ours, own)
    torch.testing.assert_close(y, z)


def test_sixteen_bit_floats_and_integers_pass():
    def model(x, i):
        return x[i] * 2, i + 1, i > 1

    x, i = torch.randn(4, 3, dtype=torch.bfloat16), torch.tensor([2, 0])
    with torch.no_grad(), _Silent():
        torch.testing.assert_close(compiled(model)(x, i), model(x, i))


def test_what_is_not_supported_runs_in_pytorch_and_is_said_once(compilations):
    def model(x):
        return torch.linalg.eigvalsh(x + x.t() * 3 + x) * 2 + 1

    x, ours = torch.randn(3, 3), compiled(model)
    with torch.no_grad():
        with pytest.warns(AfterglowWarning, match="_linalg_eigh") as caught:
            first = ours(x)
        assert len(caught) == 1
        torch.testing.assert_close(first, model(x))
        with _Silent():
            torch.testing.assert_close(ours(x), model(x))
    assert len(compilations) == 2  # what is before it, and what is behind


def test_a_call_that_turns_out_to_be_refused_is_said_with_its_name_and_place():
    def model(x):
        places = torch.full((1, 2, 2), 0.5)
        return nn.functional.fractional_max_pool2d(x, 2, output_size=2, _random_samples=places)

    x = torch.rand(1, 2, 5, 5)
    with torch.no_grad(), pytest.warns(AfterglowWarning, match="fractional_max_pool2d"):
        ours = compiled(model)(x)
    torch.testing.assert_close(ours, model(x))


def test_an_unknown_option_is_refused():
    with pytest.raises(Exception, match="the backend 'afterglow' has no option 'speed'"):
        compiled(lambda x: x + 1, speed="most")(torch.ones(2))


def test_results_lie_in_memory_as_pytorchs_do():
    convolution = nn.Conv2d(2, 3, 3).to(memory_format=torch.channels_last)

    def model(x, y):
        return convolution(x), y.t() + 1, y.t()[None] * 2

    x = torch.randn(2, 2, 4, 4).to(memory_format=torch.channels_last)
    with torch.no_grad(), _Silent():
        ours, own = compiled(model, dims={})(x, torch.randn(3, 4)), model(x, torch.randn(3, 4))
    assert [each.stride() for each in ours] == [each.stride() for each in own]
    torch.testing.assert_close(ours[0], own[0])


def test_weights_of_inference_mode_and_those_not_in_order_are_watched():
    x = torch.randn(2, 300) / 300**0.5
    with torch.inference_mode(), _Silent():
        net = nn.Linear(300, 4).eval()
        net.weight = nn.Parameter(torch.randn(300, 4).t(), requires_grad=False)
        ours = compiled(net)
        torch.testing.assert_close(ours(x), net(x))
        net.weight.mul_(2)
        torch.testing.assert_close(ours(x), net(x))
        net.bias[0] = 50
        torch.testing.assert_close(ours(x), net(x))


def test_weights_without_elements_leave_a_graph_to_pytorch():
    net = nn.Linear(3, 3, device="meta").eval()
    with torch.no_grad(), pytest.warns(AfterglowWarning, match="on the device 'meta'"):
        assert compiled(net)(torch.randn(2, 3, device="meta")).is_meta


def test_random_numbers_differ_between_graphs_and_follow_pytorchs_seed():
    def model(x):
        first = torch.rand(3)
        torch._dynamo.graph_break()
        return first, torch.rand(3), x

    ours = compiled(model)
    torch.manual_seed(4)
    first, second, _ = ours(1)
    assert not torch.equal(first, second)
    assert not torch.equal(first, ours(1)[0])
    torch.manual_seed(4)
    torch.testing.assert_close(ours(1)[:2], (first, second))


def test_fused_layers_of_inference_are_compiled():
    net = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).eval()
    ours, x = compiled(net), torch.randn(2, 5, 8)
    hidden = torch.tensor([[False] * 5, [False] * 3 + [True] * 2])
    with torch.no_grad(), _Silent():
        torch.testing.assert_close(ours(x), net(x))
        expected = net(x, src_key_padding_mask=hidden)
        torch.testing.assert_close(ours(x, src_key_padding_mask=hidden), expected)
