"""A picture of how near models come to what the machine can do: a dot each, below the roofs.

Along x lie the operations for each byte that moves, along y the operations of a second, both by
powers of ten. A roof that rises is the bandwidth of a memory, the level one is the arithmetic.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape

from benchmarks.svg import COLOURS, line, picture, text

LEFT, TOP, WIDTH, HEIGHT = 60, 44, 700, 420
LETTER, LINE = 6.4, 12.0
"""About how wide a letter is, and how high a line of text."""
Box = tuple[float, float, float, float]
"""Left, top, right, bottom."""


@dataclass(frozen=True)
class Dot:
    """A model: operations for each byte, and GFLOP/s."""

    name: str
    intensity: float
    rate: float


@dataclass(frozen=True)
class Roof:
    """A memory: its name, and GB/s."""

    name: str
    bandwidth: float


@dataclass(frozen=True)
class _Scale:
    """From numbers to places, along both axes; decades are whole."""

    low_x: int
    high_x: int
    low_y: int
    high_y: int

    def x(self, intensity: float) -> float:
        share = (math.log10(intensity) - self.low_x) / (self.high_x - self.low_x)
        return LEFT + WIDTH * share

    def y(self, rate: float) -> float:
        share = (math.log10(rate) - self.low_y) / (self.high_y - self.low_y)
        return TOP + HEIGHT * (1 - share)


def roofline_svg(title: str, dots: Sequence[Dot], peak: float, roofs: Sequence[Roof]) -> str:
    """The picture as SVG; `peak` is in GFLOP/s."""
    scale = _scale(dots, peak)
    parts = [text(LEFT, 22, title, "title"), *_grid(scale), *_roofs(scale, peak, roofs)]
    taken = [_dot_box(scale, dot) for dot in dots] + _peak_boxes(scale, peak)
    for dot in sorted(dots, key=lambda dot: -dot.rate):
        parts += _dot(scale, dot, taken)
    return picture(LEFT + WIDTH + 20, TOP + HEIGHT + 50, parts)


def _scale(dots: Sequence[Dot], peak: float) -> _Scale:
    xs, ys = [dot.intensity for dot in dots], [dot.rate for dot in dots]
    return _Scale(
        math.floor(math.log10(min([1.0, *xs]))),
        math.ceil(math.log10(max([100.0, *xs]) * 1.5)),
        math.floor(math.log10(min([*ys, peak / 10]))),
        math.ceil(math.log10(max([*ys, peak]) * 1.2)),
    )


def _grid(scale: _Scale) -> Iterator[str]:
    for power in range(scale.low_x, scale.high_x + 1):
        x = scale.x(10.0**power)
        yield line(x, TOP, x, TOP + HEIGHT, "grid")
        yield text(x, TOP + HEIGHT + 16, f"{10.0**power:g}", anchor="middle")
    for power in range(scale.low_y, scale.high_y + 1):
        y = scale.y(10.0**power)
        yield line(LEFT, y, LEFT + WIDTH, y, "grid")
        yield text(LEFT - 6, y + 4, f"{10.0**power:g}", anchor="end")
    yield text(LEFT + WIDTH, TOP + HEIGHT + 36, "FLOP for each byte", anchor="end")
    yield text(LEFT, TOP - 8, "GFLOP/s")


def _roofs(scale: _Scale, peak: float, roofs: Sequence[Roof]) -> Iterator[str]:
    """The level roof begins where the steepest one reaches it."""
    low, high = 10.0**scale.low_x, 10.0**scale.high_x
    corners = [min(peak / roof.bandwidth, high) for roof in roofs]
    yield line(
        scale.x(max(low, min(corners, default=low))), scale.y(peak), scale.x(high), scale.y(peak),
        "roof",
    )  # fmt: skip
    yield text(LEFT + WIDTH - 4, scale.y(peak) - 6, f"arithmetic, {peak:.0f} GFLOP/s", anchor="end")
    for roof, corner in zip(roofs, corners, strict=True):
        begin = max(low, 10.0**scale.low_y / roof.bandwidth)
        points = [(begin, begin * roof.bandwidth), (corner, corner * roof.bandwidth)]
        (x1, y1), (x2, y2) = [(scale.x(x), scale.y(y)) for x, y in points]
        yield line(x1, y1, x2, y2, "roof")
        angle = math.degrees(math.atan2(y2 - y1, x2 - x1))
        label = text(0, 0, f"{roof.name}, {roof.bandwidth:.0f} GB/s")
        turned = f"translate({x1 + 6:.1f} {y1 - 10:.1f}) rotate({angle:.1f})"
        yield f'<g transform="{turned}">{label}</g>'


def _dot(scale: _Scale, dot: Dot, taken: list[Box]) -> Iterator[str]:
    x, y = scale.x(dot.intensity), scale.y(dot.rate)
    hint = escape(f"{dot.name}: {dot.rate:.0f} GFLOP/s, {dot.intensity:.1f} FLOP a byte")
    circle = f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{COLOURS[0]}">'
    yield f"{circle}<title>{hint}</title></circle>"
    left, top, *_ = _free_box(x, y, LETTER * len(dot.name), taken)
    yield text(left, top + LINE - 3, dot.name)


def _dot_box(scale: _Scale, dot: Dot) -> Box:
    x, y = scale.x(dot.intensity), scale.y(dot.rate)
    return x - 4, y - 4, x + 4, y + 4


def _peak_boxes(scale: _Scale, peak: float) -> list[Box]:
    """The level roof, and the words above its right end."""
    y, right = scale.y(peak), LEFT + WIDTH
    return [(LEFT, y - 1, right, y + 1), (right - 24 * LETTER, y - 18, right, y)]


def _free_box(x: float, y: float, width: float, taken: list[Box]) -> Box:
    """A place for a name beside a dot that covers nothing, the nearest of those tried."""
    sides = [(7.0, -LINE / 2), (-7.0 - width, -LINE / 2)]
    tries = [
        (dx, dy + sign * step * LINE)
        for step in range(8)
        for sign in (-1, 1)
        for dx, dy in sides
        if x + dx >= LEFT and x + dx + width <= LEFT + WIDTH + 16
    ]
    boxes = [(x + dx, y + dy, x + dx + width, y + dy + LINE) for dx, dy in tries]
    free = next((box for box in boxes if not any(_overlap(box, other) for other in taken)), None)
    box = free or (boxes[0] if boxes else (x + 7, y, x + 7 + width, y + LINE))
    taken.append(box)
    return box


def _overlap(one: Box, other: Box) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]
