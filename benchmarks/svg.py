"""The parts that pictures are made of."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from html import escape

COLOURS = ("#4e79a7", "#d9772b", "#4f9146", "#a0619a")
STYLE = """
text { font: 11px "DejaVu Sans", Verdana, sans-serif; fill: #333; }
.title { font-size: 15px; font-weight: bold; }
.grid { stroke: #e4e4e4; stroke-width: 1; }
.even { stroke: #c00; stroke-width: 1.2; stroke-dasharray: 6 4; }
.roof { stroke: #333; stroke-width: 1.6; fill: none; }
""".strip()


def picture(width: int, height: int, parts: Iterable[str]) -> str:
    """A whole picture."""
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'width="{width}" height="{height}">'
    )
    ground = f'<rect width="{width}" height="{height}" fill="#fff"/>'
    return "\n".join([head, f"<style>{STYLE}</style>", ground, *parts, "</svg>"]) + "\n"


def text(x: float, y: float, words: str, style: str = "", anchor: str = "start") -> str:
    """Words whose line stands at a point."""
    kind = f' class="{style}"' if style else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{kind}>{escape(words)}</text>'


def line(x1: float, y1: float, x2: float, y2: float, style: str) -> str:
    """A straight line."""
    return f'<line class="{style}" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>'


def legend(counts: Iterable[int], left: float, top: float) -> Iterator[str]:
    """The colours of numbers of threads, side by side."""
    for place, count in enumerate(counts):
        x = left + place * 90
        colour = COLOURS[place % len(COLOURS)]
        yield f'<rect x="{x}" y="{top}" width="11" height="11" fill="{colour}"/>'
        yield text(x + 16, top + 10, f"{count} thread{'s' if count > 1 else ''}")
