"""Images as samples."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from afterglow.driver import images
from afterglow.driver.images import ImageOptions, ImageReader
from afterglow.runtime import TensorInfo
from afterglow.support.errors import UsageError
from afterglow.types import Array
from afterglow.types.dtype import DType, f32, i64, u8


def info(*shape: int | str, dtype: DType = f32) -> TensorInfo:
    return TensorInfo("x", dtype, shape)


@pytest.fixture
def picture(tmp_path: Path) -> Path:
    """An image of 4 rows and 8 columns: red on the left, dark on the right."""
    pixels = np.zeros((4, 8, 3), np.uint8)
    pixels[:, :4, 0] = 255
    Image.fromarray(pixels).save(tmp_path / "p.png")
    return tmp_path / "p.png"


def read(file: Path, input: TensorInfo, **options: Any) -> Array:
    return ImageReader.of([input], ImageOptions(**options), file).read(file)


def test_channels_are_where_the_input_has_them(picture: Path) -> None:
    first, last = read(picture, info(1, 3, 4, 8)), read(picture, info(1, 4, 8, 3))
    assert first.shape == (1, 3, 4, 8)
    assert first.dtype == np.float32
    assert (first == last.transpose(0, 3, 1, 2)).all()
    assert first[0, :, 0, 0].tolist() == [1, 0, 0]


def test_the_centre_of_an_image_is_fitted(picture: Path) -> None:
    found = read(picture, info(1, 3, 2, 2))
    assert found.shape == (1, 3, 2, 2)
    assert found[0, 0, :, 0].min() > 0.8
    assert found[0, 0, :, 1].max() < 0.2


def test_pixels_are_normalized(picture: Path) -> None:
    found = read(picture, info(1, 3, 4, 8), mean=(0.5, 0.25, 0), std=(0.5,))
    assert found[0, :, 0, 0].tolist() == [1, -0.5, 0]


def test_bytes_stay_bytes(picture: Path) -> None:
    found = read(picture, info(1, 3, 4, 8, dtype=u8))
    assert found.dtype == np.uint8
    assert found.max() == 255


def test_grey_images_have_one_channel(picture: Path) -> None:
    assert read(picture, info(1, 1, 4, 8)).shape == (1, 1, 4, 8)


def test_dynamic_sizes_are_given(picture: Path) -> None:
    assert read(picture, info("n", 3, "h", "w"), size=(6, 5)).shape == (1, 3, 6, 5)


def fails(file: Path, inputs: list[TensorInfo], text: str, **options: Any) -> None:
    with pytest.raises(UsageError) as caught:
        ImageReader.of(inputs, ImageOptions(**options), file).read(file)
    assert str(caught.value) == f"error: {text}"


def test_inputs_that_take_no_image_are_named(picture: Path) -> None:
    help = "  help: an image needs four axes, 1, 3 or 4 channels, and elements f32 or u8"
    for shape, dtype, text in (
        ((1, 3), f32, "f32[1, 3]"),
        ((1, 8, 4, 8), f32, "f32[1, 8, 4, 8]"),
        ((1, 3, 4, 8), i64, "i64[1, 3, 4, 8]"),
    ):
        input = info(*shape, dtype=dtype)
        fails(picture, [input], f"{picture} is an image, but input '{input}' takes none\n{help}")
        assert text in str(input)
    fails(
        picture,
        [info(1), TensorInfo("y", f32, ())],
        f"{picture} is an image, but the model takes several inputs: x, y\n"
        "  help: give a FILE.npz with an array for each of them",
    )


def test_options_that_do_not_fit_are_refused(picture: Path) -> None:
    fixed, free = info(1, 3, 4, 8), info(1, 3, "h", "w")
    fails(
        picture,
        [fixed],
        f"images of (9, 9) do not fit input '{fixed}'\n  help: leave the size out",
        size=(9, 9),
    )
    fails(
        picture,
        [free],
        f"the height and width of input '{free}' are dynamic\n"
        "  help: give the size of images: size=(224, 224), or --size 224x224",
    )
    fails(
        picture,
        [fixed],
        "mean has 2 numbers, but images have 3 channels\n  help: give 1 or 3",
        mean=(0, 1),
    )
    fails(
        picture,
        [info(1, 3, 4, 8, dtype=u8)],
        "input 'x: u8[1, 3, 4, 8]' takes bytes, which are not normalized\n"
        "  help: leave mean and std out",
        std=(0.5,),
    )
    with pytest.raises(UsageError, match="std must not be 0"):
        ImageOptions(std=(1, 0, 1))


def test_broken_images_are_named(tmp_path: Path) -> None:
    file = tmp_path / "b.png"
    file.write_bytes(b"nothing")
    fails(
        file,
        [info(1, 3, 4, 8)],
        f"cannot read the image {file}: cannot identify image file {str(file)!r}",
    )


def test_without_pillow_the_error_says_what_to_do(
    picture: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(name: str) -> Any:
        raise ImportError(name)

    monkeypatch.setattr(images, "import_module", missing)
    fails(
        picture,
        [info(1, 3, 4, 8)],
        "Pillow, which reads images such as p.png, is not installed\n"
        "  help: pip install afterglow[image], or give FILE.npz",
    )
