"""Pooling of PyTorch."""

import pytest

torch = pytest.importorskip("torch")

from tests.frontends.torch.agreement import assert_agree, randn  # noqa: E402

F = torch.nn.functional


def test_windows_pool_as_those_of_pytorch():
    def pool(line, image, volume):
        largest, places = F.max_pool2d(image, 3, 2, 1, return_indices=True)
        return (
            F.max_pool1d(line, 3, dilation=2),
            F.max_pool2d(image[0], (2, 3), ceil_mode=True),
            largest,
            places,
            F.max_pool3d(volume, 2),
            F.avg_pool1d(line, 2, padding=1, count_include_pad=False),
            F.avg_pool2d(image, 3, 2, 1, ceil_mode=True),
            F.avg_pool2d(image, 4, 3, 2, ceil_mode=True, divisor_override=5),
            F.avg_pool3d(volume, 2, 1),
            F.lp_pool2d(image, 2, 2),
            F.max_unpool2d(largest, places, 3, 2, 1, output_size=(6, 7)),
        )

    assert_agree(pool, randn(2, 3, 7), randn(2, 3, 6, 7), randn(1, 2, 4, 4, 3))


@pytest.mark.slow  # an export takes most of a second
def test_adaptive_pooling_takes_extents_that_do_not_divide():
    def pool(line, image, volume):
        return (
            F.adaptive_avg_pool1d(line, 3),
            F.adaptive_avg_pool2d(image, (4, 7)),
            F.adaptive_avg_pool2d(image, (3, None)),
            F.adaptive_avg_pool2d(image, 1),
            F.adaptive_avg_pool3d(volume, 2),
            F.adaptive_max_pool1d(line, 3),
            F.adaptive_max_pool2d(image[0], (3, 7), return_indices=True),
            F.adaptive_max_pool2d(image, (4, 5), return_indices=True),
        )

    assert_agree(pool, randn(2, 3, 7), randn(2, 3, 6, 7), randn(1, 2, 4, 4, 3))
