"""Pieces of the pictures that Afterglow draws as SVG."""

from __future__ import annotations

import math
from html import escape

COLOURS = (
    "#4e79a7",
    "#d9772b",
    "#4f9146",
    "#a0619a",
    "#2f9490",
    "#b08a1e",
    "#c8505f",
    "#8a6d5b",
)
"""Colours that can be told apart, and under white letters."""


def round_step(span: float, most: int) -> float:
    """1, 2 or 5 times a power of ten: the least step of which `span` holds at most `most`."""
    decade = 10.0 ** math.floor(math.log10(span / most))
    return next(n * decade for n in (1, 2, 5, 10, 20) if span <= most * n * decade * (1 + 1e-9))


def svg_line(x1: float, y1: float, x2: float, y2: float, kind: str) -> str:
    """A line in the style of a class."""
    return f'<line class="{kind}" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>'


def svg_text(x: float, y: float, text: str, kind: str = "", anchor: str = "start") -> str:
    """A text on a page, in the style of a class."""
    style = f' class="{kind}"' if kind else ""
    return f'<text{style} x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'
