"""Curves of a training run as SVG: losses and metrics over epochs."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import TypeAlias

from afterglow.support.svg import COLOURS, round_step, svg_line, svg_text

Curve: TypeAlias = Sequence[tuple[float, float]]
"""Epochs and numbers."""

_WIDTH, _HEIGHT = 430, 262
_LEFT, _RIGHT, _TOP, _BOTTOM = 62, 16, 52, 44
_LETTER = 6.5
"""Width of a letter, about."""
_STYLE = """
.history { background: #fff; }
.history text { font: 11px "DejaVu Sans", Verdana, sans-serif; fill: #333; }
.history .title { font-size: 13px; font-weight: bold; }
.history .grid { stroke: #e4e4e4; stroke-width: 1; }
.history .axis { stroke: #666; stroke-width: 1; }
.history .curve { fill: none; stroke-width: 1.8; stroke-linejoin: round; }
@media (prefers-color-scheme: dark) {
.history { background: #16181c; }
.history text { fill: #ccc; }
.history .grid { stroke: #2d3138; }
.history .axis { stroke: #8a8f98; }
}
""".strip()


def history_svg(panels: Mapping[str, Mapping[str, Curve]]) -> str:
    """A panel for each title, side by side, with its curves by name."""
    width, height = _WIDTH * max(1, len(panels)), _HEIGHT
    drawn = (
        f'<g transform="translate({number * _WIDTH} 0)">{"".join(_Panel(title, curves).draw())}</g>'
        for number, (title, curves) in enumerate(panels.items())
    )
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" class="history" viewBox="0 0 {width} {height}" '
        f'width="{width}" height="{height}">',
        f"<style>{_STYLE}</style>",
        *drawn,
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


class _Panel:
    """One pair of axes: its scales, and what is drawn between them."""

    def __init__(self, title: str, curves: Mapping[str, Curve]) -> None:
        self.title = title
        self.curves = {name: _finite(curve) for name, curve in curves.items()}
        points = [point for curve in self.curves.values() for point in curve]
        self.left, self.right = _span([x for x, _ in points])
        self.bottom, self.top = _span([y for _, y in points])

    def draw(self) -> Iterator[str]:
        """All of it, back to front."""
        yield svg_text(_LEFT, 20, self.title, "title")
        yield from self._axes()
        for (name, curve), colour in zip(self.curves.items(), COLOURS, strict=False):
            yield self._curve(name, curve, colour)
        yield from self._legend()

    def _x(self, epoch: float) -> float:
        share = (epoch - self.left) / (self.right - self.left)
        return _LEFT + share * (_WIDTH - _LEFT - _RIGHT)

    def _y(self, value: float) -> float:
        share = (value - self.bottom) / (self.top - self.bottom)
        return _HEIGHT - _BOTTOM - share * (_HEIGHT - _TOP - _BOTTOM)

    def _axes(self) -> Iterator[str]:
        low, right = _HEIGHT - _BOTTOM, _WIDTH - _RIGHT
        for value in _ticks(self.bottom, self.top, 6):
            yield svg_line(_LEFT, self._y(value), right, self._y(value), "grid")
            yield svg_text(_LEFT - 6, self._y(value) + 4, f"{value:.4g}", anchor="end")
        for epoch in (tick for tick in _ticks(self.left, self.right, 8) if tick == round(tick)):
            yield svg_line(self._x(epoch), low, self._x(epoch), low + 4, "axis")
            yield svg_text(self._x(epoch), low + 16, f"{epoch:g}", anchor="middle")
        yield svg_line(_LEFT, low, right, low, "axis")
        yield svg_line(_LEFT, _TOP, _LEFT, low, "axis")
        yield svg_text((_LEFT + right) / 2, low + 34, "epoch", anchor="middle")

    def _curve(self, name: str, curve: Curve, colour: str) -> str:
        points = " ".join(f"{self._x(x):.1f},{self._y(y):.1f}" for x, y in curve)
        dots = "".join(
            f'<circle cx="{self._x(x):.1f}" cy="{self._y(y):.1f}" r="2.2" fill="{colour}">'
            f"<title>{escape(name)} {y:.6g} in epoch {x:g}</title></circle>"
            for x, y in curve
        )
        return f'<polyline class="curve" stroke="{colour}" points="{points}"/>{dots}'

    def _legend(self) -> Iterator[str]:
        x = float(_LEFT)
        for name, colour in zip(self.curves, COLOURS, strict=False):
            yield f'<rect x="{x:.1f}" y="33" width="14" height="3" fill="{colour}"/>'
            yield svg_text(x + 19, 38, name)
            x += 35 + _LETTER * len(name)


def _finite(curve: Curve) -> Curve:
    return [point for point in curve if all(map(math.isfinite, point))]


def _span(numbers: Sequence[float]) -> tuple[float, float]:
    """The least and the largest number, or a little more than that if they are the same."""
    low, high = min(numbers, default=0.0), max(numbers, default=1.0)
    if high - low > 1e-9 * max(abs(low), abs(high)):
        return low, high
    margin = max(abs(high), 1.0) / 2
    return low - margin, high + margin


def _ticks(low: float, high: float, most: int) -> list[float]:
    """Round numbers between two, at most so many and one more."""
    step = round_step(high - low, most)
    return [n * step for n in range(math.ceil(low / step), math.floor(high / step) + 1)]
