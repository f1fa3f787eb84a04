"""Reductions of PyTorch, and what runs along an axis."""

import pytest

torch = pytest.importorskip("torch")

from tests.frontends.torch.agreement import assert_agree, randn  # noqa: E402


def test_reductions_take_any_axes_and_types():
    def compute(x, whole, flags, scalar):
        return (
            *(x.sum(), x.sum((0, -1)), x.mean(-2, keepdim=True), whole.sum(), flags.sum(0)),
            *(x.amax(()), x.amin((0, 2)), whole.prod(0), flags.any(), flags.all(-1), x.any(1)),
            *(x.var(), x.std(0, correction=0), x.var((0, 1), correction=30), *torch.var_mean(x, 1)),
            *(x.logsumexp((0, 2)), torch.linalg.vector_norm(x, 3, (0, 1)), x.count_nonzero(0)),
            *(torch.linalg.vector_norm(x, 0), torch.linalg.vector_norm(x, -torch.inf, 1)),
            *(scalar.sum(0), scalar.amax(-1), scalar.var(), *scalar.max(0), scalar.argmax()),
            *(x[:, :0].sum(1), x[:, :0].mean(1), x[:, :0].prod(1), flags[:0].all(0), x.aminmax()),
        )

    whole, flags = torch.arange(6).reshape(2, 3) - 2, torch.tensor([[True, False], [True, True]])
    assert_agree(compute, randn(2, 3, 4), whole, flags, torch.tensor(2.0))


def test_extremes_have_the_first_index_and_nan_is_beyond_all():
    def compute(x, flags):
        return (
            *(*x.max(0), *x.min(-1, keepdim=True), x.argmax(), x.argmin(1), *flags.max(0)),
            *(x.argmax(keepdim=True), *x.cummax(0), *x.cummin(1), *flags.cummax(1), x.max()),
            *(
                *x.sort(0),
                *x.sort(dim=1, descending=True, stable=True),
                *x.topk(2, 0, largest=False),
            ),
            *(*x.median(1), *x.nanmedian(1), x.median(), x.nanmedian(), *x.kthvalue(2, 1)),
            *flags.sort(1),
        )

    x = torch.tensor([[1.0, 3.0, 3.0, -1.0], [torch.nan, 2.0, 5.0, 4.0], [1.0, -torch.inf, 3.0, 0]])
    assert_agree(compute, x, torch.tensor([[False, True, True], [True, False, True]]))


def test_running_sums_and_searches_agree():
    def compute(x, whole, edges):
        return (
            *(x.cumsum(1), whole.cumsum(0), x.cumprod(-1), x.logcumsumexp(0), *whole.mode(1)),
            *(torch.searchsorted(edges, x), torch.bucketize(x, edges[0], right=True)),
            *(torch.isin(whole, whole[0]), torch.isin(whole, 2, invert=True), torch.isin(1, whole)),
            torch.searchsorted(edges[0], 0.5, side="right"),
        )

    edges = torch.tensor([[-1.0, 0.0, 0.5, 1.0]] * 3)
    assert_agree(compute, randn(3, 5), torch.tensor([[1, 2, 2, 3], [3, 1, 3, 1]]), edges)
