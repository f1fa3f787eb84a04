"""Embeddings of PyTorch."""

import pytest

torch = pytest.importorskip("torch")

from tests.frontends.torch.agreement import assert_agree, randn  # noqa: E402

F = torch.nn.functional


def test_rows_are_looked_up_and_combined_by_bag():
    def look_up(table, indices, offsets, factors):
        flat = indices.reshape(-1)
        return (
            F.embedding(indices, table, padding_idx=1),
            F.embedding_bag(flat, table, offsets, mode="sum", per_sample_weights=factors),
            F.embedding_bag(flat, table, offsets, mode="mean", padding_idx=2),
            F.embedding_bag(flat, table, offsets, mode="max"),
            F.embedding_bag(flat, table, offsets, mode="mean", include_last_offset=True),
            F.embedding_bag(indices, table, mode="max", padding_idx=-6),
        )

    indices, offsets = torch.tensor([[0, 2, 5], [1, 1, 2]]), torch.tensor([0, 2, 2, 6])
    assert_agree(look_up, randn(6, 3), indices, offsets, randn(6))
