"""Resampling of images by PyTorch."""

import pytest

torch = pytest.importorskip("torch")

from tests.frontends.torch.agreement import assert_agree, randn  # noqa: E402

F = torch.nn.functional


def test_images_are_resampled_as_by_pytorch():
    def resample(line, image, volume):
        return (
            F.interpolate(line, 11),
            F.interpolate(line, scale_factor=1.7, mode="linear"),
            F.interpolate(image, scale_factor=2),
            F.interpolate(image, (9, 4), mode="nearest-exact"),
            F.interpolate(image, (9, 4), mode="bilinear"),
            F.interpolate(image, (9, 4), mode="bilinear", align_corners=True),
            F.interpolate(image, scale_factor=(1.5, 0.7), mode="bicubic"),
            F.interpolate(image, (1, 8), mode="bicubic", align_corners=True),
            F.interpolate(image, (3, 9), mode="bilinear", antialias=True),
            F.interpolate(image, (3, 4), mode="bicubic", antialias=True),
            F.interpolate(image, (4, 3), mode="area"),
            F.interpolate(volume, (3, 5, 4), mode="trilinear"),
        )

    assert_agree(resample, randn(2, 3, 7), randn(2, 3, 6, 7), randn(1, 2, 4, 4, 3))


@pytest.mark.slow  # an export takes most of a second
def test_grids_say_where_images_are_sampled():
    def sample(image, theta):
        grid = F.affine_grid(theta, (2, 3, 4, 5), align_corners=False)
        one = F.affine_grid(theta, (2, 3, 1, 5), align_corners=True)
        return (
            grid,
            one,
            F.grid_sample(image, grid, align_corners=True),
            F.grid_sample(image, grid, "nearest", "border", align_corners=False),
            F.grid_sample(image, grid, "bicubic", "reflection", align_corners=False),
        )

    assert_agree(sample, randn(2, 3, 6, 7), randn(2, 2, 3))


@pytest.mark.slow  # an export takes most of a second
def test_blocks_are_taken_apart_and_summed_up():
    def blocks(image):
        columns = F.unfold(image, (3, 2), dilation=(1, 2), padding=1, stride=(2, 1))
        whole = F.fold(columns, (6, 7), (3, 2), dilation=(1, 2), padding=1, stride=(2, 1))
        return columns, whole, F.unfold(image[0], 2)

    assert_agree(blocks, randn(2, 3, 6, 7))
