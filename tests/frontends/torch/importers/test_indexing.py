"""Indexing, and elements put at places."""

import pytest

torch = pytest.importorskip("torch")

from tests.frontends.torch.agreement import assert_agree, randn  # noqa: E402


def test_index_tensors_pick_elements_where_pytorch_puts_them():
    def compute(x, i, j):
        return (
            *(x[i], x[:, i % 3], x[i, j], x[:, j, i], x[i, :, j], x[i[:, None], j], x[-1, j]),
            *(x.index_select(1, j), x.take(i * j), x.gather(2, i.expand(2, 3, 4)), x[..., j, None]),
        )

    i, j = torch.tensor([0, 1, -1, 1]), torch.tensor([2, 0, 1, -1])
    assert_agree(lambda x, i, j: compute(x, i % 2, j % 3), randn(2, 3, 4), i, j)


def test_elements_are_put_at_places():
    def compute(x, i, mask):
        row = x[0]
        return (
            *(x.index_put((i,), row), x.index_put((i, i), row[0], accumulate=True)),
            *(
                torch.ops.aten.index_put(x, [None, i], x[:, :3], True),
                x.index_add(1, i, x, alpha=2),
            ),
            *(x.index_fill(0, i, 2.0), x.index_copy(2, i, x[..., 1:]), x.masked_fill(mask, 1.0)),
            *(
                x.mT.movedim(1, 0).index_put((mask,), torch.tensor(3.0)),
                x.masked_scatter(mask, row),
            ),
            *(x.scatter(0, i.expand(1, 2, 3), 5.0), x.scatter_add(2, i.expand(2, 3, 3), x)),
            *(
                x.scatter_reduce(1, i.expand(2, 2, 3), x, how, include_self=keeps)
                for how in ("sum", "prod", "mean", "amax", "amin")
                for keeps in (True, False)
            ),
            torch.nn.functional.one_hot(i, 4),
        )

    mask = torch.tensor([True, False, True, False])
    assert_agree(compute, randn(2, 3, 4), torch.tensor([1, 0, 1]), mask)


def test_data_decides_how_many_elements_there_are():
    def compute(x, whole):
        return (
            *(x[x > 0], x.nonzero(), x.masked_select(x < 0), torch.unique(whole)),
            x.index_put((x > 0,), x[x > 0] + 1),
        )

    assert_agree(compute, randn(3, 4), torch.tensor([3, 1, 3, 2]))
