"""Distances and determinants of PyTorch."""

import pytest

torch = pytest.importorskip("torch")

from tests.frontends.torch.agreement import assert_agree, randn  # noqa: E402

F = torch.nn.functional


@pytest.mark.slow  # an export takes most of a second
def test_distances_are_those_of_pytorch():
    def distances(x, y, many):
        return (
            *(torch.cdist(x, y, p=p) for p in (0.0, 1.0, 2.0, 3.0, float("inf"))),
            torch.cdist(many, y),
            *(torch.pdist(y, p=p) for p in (1.0, 2.0)),
            F.cosine_similarity(x, y[:3], dim=-1),
            F.pairwise_distance(x, y[:3]),
        )

    assert_agree(distances, randn(2, 3, 4), randn(5, 4), randn(30, 4))


@pytest.mark.slow  # an export takes most of a second
def test_determinants_are_those_of_pytorch():
    def determinants(x):
        return torch.det(x), torch.linalg.slogdet(x), torch.logdet(x @ x.mT)

    assert_agree(determinants, randn(2, 3, 3), tolerance=1e-4)
