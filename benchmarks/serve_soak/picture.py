"""A picture of the load: the server's memory and the times of its answers, second by second."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from benchmarks.serve_soak.tally import Sample
from benchmarks.svg import COLOURS, line, picture, text

LEFT, WIDTH, HEIGHT = 64, 640, 130
TOPS = (48, 230)
LINES = 4


def soak_svg(samples: Sequence[Sample]) -> str:
    """Memory above, latencies below."""
    minutes = [sample.second / 60 for sample in samples]
    memory = [("resident memory", [sample.megabytes for sample in samples])]
    times = [
        ("99th percentile", [sample.p99 for sample in samples]),
        ("median", [sample.p50 for sample in samples]),
    ]
    parts = [
        *_panel("Memory of the server, MB", TOPS[0], minutes, memory),
        *_panel("Time of an answer, ms, in each second", TOPS[1], minutes, times),
        text(LEFT + WIDTH, TOPS[1] + HEIGHT + 32, "minutes", anchor="end"),
    ]
    return picture(LEFT + WIDTH + 24, TOPS[1] + HEIGHT + 44, parts)


def _panel(
    title: str, top: float, minutes: Sequence[float], curves: Sequence[tuple[str, Sequence[float]]]
) -> Iterator[str]:
    last = max(minutes) or 1.0
    highest = 1.1 * max(max(values) for _, values in curves) or 1.0
    yield text(LEFT, top - 12, title, "title")
    for number in range(LINES + 1):
        y = top + HEIGHT * (1 - number / LINES)
        yield line(LEFT, y, LEFT + WIDTH, y, "grid")
        yield text(LEFT - 8, y + 4, f"{highest * number / LINES:.0f}", anchor="end")
        x = LEFT + WIDTH * number / LINES
        yield text(x, top + HEIGHT + 16, f"{last * number / LINES:.3g}", anchor="middle")
    for place, (name, values) in enumerate(curves):
        colour = COLOURS[place]
        points = " ".join(
            f"{LEFT + WIDTH * m / last:.1f},{top + HEIGHT * (1 - v / highest):.1f}"
            for m, v in zip(minutes, values, strict=True)
        )
        yield f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="1"/>'
        x = LEFT + WIDTH - 130 * (len(curves) - place)
        yield f'<rect x="{x}" y="{top - 22}" width="11" height="11" fill="{colour}"/>'
        yield text(x + 16, top - 12, name)
