"""Ops of PyTorch that make, move, take and put elements."""

import pytest

torch = pytest.importorskip("torch")

from tests.frontends.torch.agreement import assert_agree, randn  # noqa: E402


def test_tensors_are_made_as_asked():
    def compute(x):
        return (
            *(torch.arange(2, 11, 3), torch.arange(1.0, 0, -0.25), torch.eye(2, 4)),
            *(torch.linspace(-1, 2, 7), torch.linspace(0, 9, 4, dtype=torch.int32)),
            *(torch.logspace(0, 2, 3), torch.full((2, 1), 200, dtype=torch.uint8)),
            *(torch.ones_like(x, dtype=torch.int64), x.new_zeros(2), torch.full((), True)),
            *(x.tril(-1), x.triu(1), torch.tril_indices(3, 4, 1), torch.triu_indices(3, 2)),
        )

    assert_agree(compute, randn(2, 3, 4))


def test_elements_move_as_those_of_pytorch():
    def compute(x, scalar):
        return (
            *(x.view(-1, 2), x.flatten(1), x.transpose(0, -1), x.mT.contiguous(), x.squeeze()),
            *(x.unsqueeze(-1), scalar.unsqueeze(0), x[:, :1].expand(-1, 3, 4), scalar.expand(2)),
            *(x.flip(0, -1), x.roll(5), x.roll((1, -1), (0, 2)), x.repeat(2, 1, 1, 2)),
            *(
                x.repeat_interleave(2),
                x.repeat_interleave(2, 1),
                x.unfold(2, 2, 2),
                x.movedim(0, 2),
            ),
            *(x.diagonal(1, 0, 2), x.diagonal(-1, 2, 1), torch.diag_embed(x, -1, 0, 2)),
            *(torch.cat([x, x[:, :0], torch.zeros(2, 1, 4)], 1), torch.stack([x, x], -1)),
            torch.diagonal_scatter(x[0], x[1, 0, :2], -1),
            *(x.split(2, -1), x.split([1, 3], 2), x.unbind(1), x.chunk(3, 2)),
            torch.nn.functional.pad(x, (1, -1, 0, 2), value=7.0),
            torch.nn.functional.pad(x, (1, 2), "reflect"),
            torch.nn.functional.pad(x, (3, 1), "replicate"),
            torch.nn.functional.pad(x, (3, 1), "circular"),
        )

    assert_agree(compute, randn(2, 3, 4), torch.tensor(3.0))


def test_strides_look_at_memory_as_it_lies():
    def compute(x):
        return (
            x.as_strided((2, 2), (1, 4), 1),
            x.t().as_strided((3,), (5,)),
            torch.as_strided_scatter(x, x[0, :2], (2,), (4,), 1),
        )

    assert_agree(compute, randn(3, 4))


def test_parts_are_taken_and_put_in():
    def compute(x):
        return (
            *(x[1, ..., ::2], x[-1], x[:, -2:], x[:, 5:], x.narrow(2, 1, 2), x.select(1, -1)),
            torch.select_scatter(x, x[:, 0], 1, -1),
            torch.slice_scatter(x, x[:, :2], 1, 1, 9),
            torch.slice_scatter(x, x[..., :2], 2, 0, 4, 2),
        )

    assert_agree(compute, randn(2, 3, 4))
