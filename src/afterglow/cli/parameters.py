"""Types of command-line parameters: shapes, dimensions, values, numbers and sizes."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import click

from afterglow.cli.arrays import read_array
from afterglow.driver.dims import DimExtents
from afterglow.support.errors import UsageError
from afterglow.support.sizes import parse_size


class Shape(click.ParamType[tuple[str, tuple[int, ...]]]):
    """The shape of an input: `x:1x3x224x224`."""

    name = "name:1x3x224x224"

    def convert(self, value: Any, param: Any, ctx: Any) -> tuple[str, tuple[int, ...]]:
        """The name of the input and its shape."""
        name, colon, extents = str(value).rpartition(":")
        parts = extents.split("x") if extents else []
        if not (name and colon) or not all(part.isdecimal() for part in parts):
            raise UsageError(
                f"{value!r} is not a shape", help="write NAME:1x3x224x224, or NAME: for a scalar"
            )
        return name, tuple(map(int, parts))


class Dim(click.ParamType[tuple[str, DimExtents]]):
    """Extents: `batch=8`, `batch=1,4,8`, `seq=1..512`, `h=32..640:32`, `total=past + 1`."""

    name = "name=8|1,4,8|1..512|32..640:32"

    def convert(self, value: Any, param: Any, ctx: Any) -> tuple[str, DimExtents]:
        """The name, and one extent, a list of extents, or a range as a tuple."""
        name, _, text = str(value).rpartition("=")
        if not name:
            raise UsageError(
                f"{value!r} is not a dimension", help="write NAME=8, NAME=1,4,8 or NAME=1..512"
            )
        extents = text if _EXPRESSION.search(text) else _parsed_extents(text)
        if extents is None:
            raise UsageError(
                f"dimension {name!r} cannot be {text!r}",
                help=f"write {name}=8, {name}=1,4,8 for several, or {name}=1..512 for a range",
            )
        return name, extents


_EXPRESSION = re.compile(r"[A-Za-z_]\w*\)?\s*(//|[-+*%])|(//|[-+*%])\s*\(?[A-Za-z_]")
"""What only an expression over dimensions has."""


def _parsed_extents(text: str) -> DimExtents | None:
    """The extents that the text gives for a dimension; None if it is malformed."""
    if ".." in text:
        ends, colon, step = text.partition(":")
        parts = [*ends.split("..", 1), *([step] if colon else [])]
    else:
        parts = text.split(",")
    if not all(part.isascii() and part.isdigit() for part in parts):
        return None
    extents = [int(part) for part in parts]
    if ".." in text:
        return tuple(extents)
    return extents if len(extents) > 1 else extents[0]


class Value(click.ParamType[tuple[str, Any]]):
    """The value of an input: `n=FILE.npy`."""

    name = "name=file.npy"

    def convert(self, value: Any, param: Any, ctx: Any) -> tuple[str, Any]:
        """The name of the input, and the array in the file."""
        name, _, file = str(value).partition("=")
        if not name or not file:
            raise UsageError(f"{value!r} does not name a value", help="write NAME=FILE.npy")
        return name, read_array(Path(file))


class Kept(click.ParamType[tuple[str, str]]):
    """An input that is kept between runs: `past.*=present.*`."""

    name = "input=output"

    def convert(self, value: Any, param: Any, ctx: Any) -> tuple[str, str]:
        """The name of the input, and of the output that it has in the next run."""
        taken, _, returned = str(value).partition("=")
        if not taken or not returned:
            raise UsageError(f"{value!r} does not name state", help="write INPUT=OUTPUT")
        return taken, returned


class Number(click.ParamType[float]):
    """A finite number greater than zero, or at least zero if `zero` is set."""

    def __init__(self, name: str, *, zero: bool = False) -> None:
        self.name = name
        self.zero = zero

    def convert(self, value: Any, param: click.Parameter | None, ctx: Any) -> float:
        """The parsed number."""
        try:
            number = float(value)
        except ValueError:
            number = math.nan
        if math.isfinite(number) and (number > 0 or (self.zero and number == 0)):
            return number
        option = param.opts[0] if param is not None else self.name
        least = "of 0 or more" if self.zero else "above 0"
        raise UsageError(f"{option} must be a number {least}, got {value!r}")


class Numbers(click.ParamType[tuple[float, ...]]):
    """Finite numbers: `0.485,0.456,0.406`."""

    name = "0.485,0.456,0.406"

    def convert(self, value: Any, param: Any, ctx: Any) -> tuple[float, ...]:
        """The parsed numbers."""
        if isinstance(value, tuple):
            return value
        try:
            numbers = tuple(map(float, str(value).split(",")))
        except ValueError:
            numbers = (math.nan,)
        if not all(map(math.isfinite, numbers)):
            option = param.opts[0] if param is not None else self.name
            raise UsageError(
                f"{option} must be numbers with commas between them, got {value!r}",
                help=f"write {option} {self.name}, or one number for all channels",
            )
        return numbers


class ImageSize(click.ParamType[tuple[int, int]]):
    """Height and width of images: `224x224`."""

    name = "224x224"

    def convert(self, value: Any, param: Any, ctx: Any) -> tuple[int, int]:
        """The parsed numbers."""
        sides = str(value).split("x")
        if len(sides) != 2 or not all(side.isdecimal() and int(side) for side in sides):
            raise UsageError(
                f"{value!r} is no size of an image", help="write HEIGHTxWIDTH, such as 224x224"
            )
        return int(sides[0]), int(sides[1])


class Size(click.ParamType[int]):
    """A number of bytes: `256KiB`."""

    name = "256KiB"

    def convert(self, value: Any, param: Any, ctx: Any) -> int:
        """The parsed number."""
        return parse_size(str(value))
