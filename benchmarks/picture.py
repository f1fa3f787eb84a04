"""A picture of ratios: a bar for each model and number of threads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

from benchmarks.svg import COLOURS, legend, line, picture, text

LEFT, RIGHT, TOP, BOTTOM = 190, 70, 56, 30
BAR, GAP = 13, 9
WIDTH = 560

Bar = tuple[str, int, float]
"""A model, a number of threads, and our time over that of the fastest other engine."""


def ratio_svg(bars: Sequence[Bar]) -> str:
    """The ratios as SVG: shorter is faster, and the dashed line is where both are equal."""
    models = list(dict.fromkeys(model for model, _, _ in bars))
    counts = sorted({threads for _, threads, _ in bars})
    row = len(counts) * BAR + GAP
    height = TOP + len(models) * row + BOTTOM
    largest = max([1.2, *(ratio for _, _, ratio in bars)])
    scale = WIDTH / largest
    parts = [
        text(LEFT, 22, "Time of Afterglow relative to the fastest other engine", "title"),
        *legend(counts, LEFT, 32),
        *_grid(largest, scale, height),
    ]
    for model, threads, ratio in bars:
        top = TOP + models.index(model) * row + counts.index(threads) * BAR
        colour = COLOURS[counts.index(threads) % len(COLOURS)]
        parts.append(
            f'<rect x="{LEFT}" y="{top}" width="{ratio * scale:.1f}" height="{BAR - 2}" '
            f'fill="{colour}"><title>{escape(model)}, {threads} threads: {ratio:.2f}</title></rect>'
        )
        parts.append(text(LEFT + ratio * scale + 5, top + 10, f"{ratio:.2f}"))
    for place, model in enumerate(models):
        middle = TOP + place * row + len(counts) * BAR / 2 + 3
        parts.append(text(LEFT - 8, middle, model, anchor="end"))
    return picture(LEFT + WIDTH + RIGHT, height, parts)


def _grid(largest: float, scale: float, height: int) -> Iterator[str]:
    step = 0.2 if largest <= 2 else 0.5
    for number in range(int(largest / step + 1e-9) + 1):
        ratio = number * step
        kind = "even" if abs(ratio - 1) < 1e-9 else "grid"
        x = LEFT + ratio * scale
        yield line(x, TOP - 6, x, height - 24, kind)
        yield text(x, height - 10, f"{ratio:.1f}", anchor="middle")
