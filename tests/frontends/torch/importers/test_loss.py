"""Losses of PyTorch."""

import pytest

torch = pytest.importorskip("torch")

from tests.frontends.torch.agreement import assert_agree, randn  # noqa: E402

F = torch.nn.functional


def test_losses_of_classes_are_those_of_pytorch():
    def losses(x, labels, weight, images):
        return (
            F.cross_entropy(x, labels, weight, label_smoothing=0.1),
            F.cross_entropy(x, x.softmax(1), reduction="none"),
            F.cross_entropy(x[0], labels[0], ignore_index=2),
            F.cross_entropy(images, labels[:2, None].expand(2, 3), reduction="sum"),
            F.nll_loss(x.log_softmax(1), labels, weight, ignore_index=1),
            F.kl_div(x.log_softmax(1), x.softmax(1), reduction="batchmean"),
        )

    labels = torch.tensor([1, 0, 2, 1])
    assert_agree(losses, randn(4, 5), labels, randn(5).abs(), randn(2, 5, 3))


@pytest.mark.slow  # an export takes most of a second
def test_losses_of_differences_are_those_of_pytorch():
    def losses(x, y, weight):
        return (
            F.mse_loss(x, y),
            F.l1_loss(x, y, reduction="sum"),
            F.smooth_l1_loss(x, y, beta=0.3),
            F.smooth_l1_loss(x, y, beta=0),
            F.huber_loss(x, y, reduction="none", delta=0.5),
            F.binary_cross_entropy(torch.sigmoid(x), torch.sigmoid(y), weight),
            F.binary_cross_entropy((x > 0).float(), torch.sigmoid(y), reduction="none"),
            F.binary_cross_entropy_with_logits(x, torch.sigmoid(y), pos_weight=weight),
            F.triplet_margin_loss(x, y, x + y),
        )

    assert_agree(losses, randn(3, 4), randn(4, 3).t().contiguous(), randn(4).abs())
