"""Images as samples: read by Pillow, fitted to the size of an input, and normalized."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from afterglow.runtime import TensorInfo
from afterglow.support.errors import UsageError
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types import Array
from afterglow.types.dtype import f32, u8

IMAGE_SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".webp", ".gif", ".tif", ".tiff", ".ppm")
"""Files of images."""
_MODES = {1: "L", 3: "RGB", 4: "RGBA"}
"""What Pillow calls images of so many channels."""


@dataclass(frozen=True)
class ImageOptions:
    """How images become arrays: `size` is height and width, if the input's shape does not say.

    Numbers from 0 to 1 become (number - mean) / std, with one mean for all channels or one each.
    """

    size: tuple[int, int] | None = None
    mean: Sequence[float] = (0.0,)
    std: Sequence[float] = (1.0,)

    @staticmethod
    def of(
        size: tuple[int, int] | None,
        mean: float | Sequence[float],
        std: float | Sequence[float],
    ) -> ImageOptions:
        """Options with one number for all channels, or one for each."""
        return ImageOptions(size, _each(mean), _each(std))

    def __post_init__(self) -> None:
        if not all(number != 0 for number in self.std):
            raise UsageError("std must not be 0")

    @property
    def is_normalizing(self) -> bool:
        """Whether it makes a difference to have mean and std."""
        return any(self.mean) or any(number != 1 for number in self.std)


def _each(numbers: float | Sequence[float]) -> tuple[float, ...]:
    return tuple(numbers) if isinstance(numbers, Sequence) else (float(numbers),)


@dataclass(frozen=True)
class ImageSamples:
    """Samples at a path, and how those that are images become arrays.

    Args:
        path: FILE.npy, FILE.npz, an image, or a folder of such files.
        size: height and width of images, if the model's input has dynamic ones.
        mean: what is subtracted from pixels, which are numbers from 0 to 1; one for each channel,
            or one for all.
        std: what they are divided by then.
    """

    path: str | Path
    size: tuple[int, int] | None = None
    mean: float | Sequence[float] = 0.0
    std: float | Sequence[float] = 1.0

    @property
    def options(self) -> ImageOptions:
        """How images become arrays."""
        return ImageOptions.of(self.size, self.mean, self.std)


@dataclass(frozen=True)
class ImageReader:
    """Reads images for an input: channels are the axis after the first, or the last one."""

    input: TensorInfo
    options: ImageOptions
    channels: int
    channels_last: bool
    size: tuple[int, int]

    @staticmethod
    def of(inputs: Sequence[TensorInfo], options: ImageOptions, file: Path) -> ImageReader:
        """The reader for the only input of a model."""
        if len(inputs) != 1:
            names = ", ".join(info.name for info in inputs)
            raise UsageError(
                f"{file} is an image, but the model takes several inputs: {names}",
                help="give a FILE.npz with an array for each of them",
            )
        info, shape = inputs[0], inputs[0].shape
        if shape is None or len(shape) != 4 or info.dtype not in (f32, u8):
            raise _no_image(info, file)
        if info.dtype is u8 and options.is_normalizing:
            raise UsageError(
                f"input '{info}' takes bytes, which are not normalized",
                help="leave mean and std out",
            )
        last = shape[1] not in (1, 3) and shape[3] in _MODES  # four may as well be rows
        channels, sides = (shape[3], shape[1:3]) if last else (shape[1], shape[2:4])
        if channels not in _MODES:
            raise _no_image(info, file)
        assert isinstance(channels, int)
        for name, numbers in (("mean", options.mean), ("std", options.std)):
            if len(numbers) not in (1, channels):
                raise UsageError(
                    f"{name} has {len(numbers)} numbers, but images have {channels} channels",
                    help=f"give 1 or {channels}",
                )
        return ImageReader(info, options, channels, last, _size(info, sides, options))

    def read(self, file: Path) -> Array:
        """The image in a file: its centre, in the shape of the input."""
        pixels = self._pixels(file)
        if self.input.dtype is f32:
            mean, std = (np.array(x, np.float32) for x in (self.options.mean, self.options.std))
            pixels = (pixels.astype(np.float32) / np.float32(255) - mean) / std
        placed = pixels if self.channels_last else pixels.transpose(2, 0, 1)
        return np.ascontiguousarray(placed[np.newaxis])

    def _pixels(self, file: Path) -> Array:
        """Bytes of an image by row, column and channel."""
        images, ops = _pillow("Image", file), _pillow("ImageOps", file)
        try:
            with images.open(file) as image:
                upright = ops.exif_transpose(image).convert(_MODES[self.channels])
        except (OSError, ValueError, images.DecompressionBombError) as error:
            reason = str(error).partition("\n")[0]
            raise UsageError(f"cannot read the image {file}: {reason}") from None
        height, width = self.size
        fitted = ops.fit(upright, (width, height), images.Resampling.BILINEAR)
        return np.asarray(fitted, np.uint8).reshape(height, width, self.channels)


def _size(
    info: TensorInfo, sides: Sequence[int | str | None], options: ImageOptions
) -> tuple[int, int]:
    """Height and width of the images that an input takes."""
    own = [side for side in sides if isinstance(side, int)]
    if len(own) == 2:
        found = (own[0], own[1])
        if options.size not in (None, found):
            raise UsageError(
                f"images of {options.size} do not fit input '{info}'", help="leave the size out"
            )
        return found
    if options.size is None:
        raise UsageError(
            f"the height and width of input '{info}' are dynamic",
            help="give the size of images: size=(224, 224), or --size 224x224",
        )
    return options.size


def _no_image(info: TensorInfo, file: Path) -> UsageError:
    return UsageError(
        f"{file} is an image, but input '{info}' takes none",
        help="an image needs four axes, 1, 3 or 4 channels, and elements f32 or u8",
    )


def _pillow(module: str, file: Path) -> Any:
    try:
        return import_module(f"PIL.{module}")  # optional, and slow to load
    except ImportError:
        raise UsageError(
            f"Pillow, which reads images such as {file.name}, is not installed",
            help="pip install afterglow[image], or give FILE.npz",
        ) from None
