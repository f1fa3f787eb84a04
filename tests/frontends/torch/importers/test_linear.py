"""Matrix products of PyTorch."""

import pytest

torch = pytest.importorskip("torch")

from tests.frontends.torch.agreement import assert_agree, randn  # noqa: E402

F = torch.nn.functional


def test_products_are_those_of_pytorch():
    def products(a, b, v, x):
        batches = torch.stack([a, 2 * a])
        return (
            torch.mm(a, b),
            torch.bmm(batches, torch.stack([b, b])),
            torch.mv(b, v),
            torch.dot(v, v),
            torch.matmul(x, b.t()),
            torch.outer(v, v),
            torch.kron(a[:2], v),
            torch.inner(a, b.t()),
            torch.tensordot(x, b, dims=([2], [1])),
            torch.einsum("bij,kj->bik", x, b),
            torch.linalg.multi_dot([a, b, a]),
            torch.linalg.vecdot(a, a),
        )

    assert_agree(products, randn(3, 4), randn(4, 3), randn(3), randn(2, 5, 3))


@pytest.mark.slow  # an export takes most of a second
def test_sums_with_products_have_factors_and_forget_what_0_multiplies():
    def sums(a, b, v, c):
        nothing = torch.full((3, 3), float("nan"))
        return (
            torch.addmm(c, a, b, beta=0.5, alpha=2),
            torch.addmm(nothing, a, b, beta=0),
            torch.addmv(v, c, v, beta=3),
            torch.baddbmm(c[None], a[None], b[None], alpha=-1),
            torch.addbmm(c, a[None], b[None]),
            torch.addr(c, v, v, alpha=2),
        )

    assert_agree(sums, randn(3, 4), randn(4, 3), randn(3), randn(3, 3))


def test_layers_take_vectors_too():
    layers = [torch.nn.Linear(4, 3), torch.nn.Bilinear(4, 4, 2)]

    def apply(linear, bilinear, x):
        return linear(x), linear(x[0]), bilinear(x, x), F.linear(x, linear.weight[0])

    model = assert_agree(apply, randn(2, 4), modules=layers)
    assert "transpose(" not in model.ir("graph")
