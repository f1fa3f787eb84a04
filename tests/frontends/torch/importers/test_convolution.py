"""Convolutions of PyTorch."""

import pytest

torch = pytest.importorskip("torch")

from tests.frontends.torch.agreement import assert_agree, randn  # noqa: E402

F = torch.nn.functional


def test_convolutions_have_strides_padding_dilation_and_groups():
    def convolve(line, image, volume, w):
        return (
            F.conv1d(line, w[:, :, 0], stride=2, padding=1),
            F.conv2d(image, w, dilation=2, padding="same"),
            F.conv2d(image, w[:, :1], groups=2, padding=(1, 0)),
            F.conv2d(image[0], w, w[:, 0, 0, 0]),
            F.conv2d(image, w[..., :2], padding="same"),
            F.conv3d(volume, w[..., None], padding="valid"),
        )

    inputs = randn(2, 2, 7), randn(2, 2, 6, 7), randn(1, 2, 4, 4, 3), randn(4, 2, 3, 3)
    assert_agree(convolve, *inputs)


def test_transposed_convolutions_add_behind():
    def convolve(line, image, w):
        return (
            F.conv_transpose1d(line, w[:, :, 0], stride=2, output_padding=1),
            F.conv_transpose2d(image, w, stride=3, padding=1, output_padding=(2, 1), dilation=2),
            F.conv_transpose2d(image, w, groups=2),
            torch.convolution(image, w, None, [2], [1], [1], True, [1], 1),
        )

    assert_agree(convolve, randn(1, 4, 5), randn(1, 4, 5, 4), randn(4, 2, 3, 3))
