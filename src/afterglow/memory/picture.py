"""A picture of the arena: address over time, a rectangle a buffer."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from html import escape

from afterglow.instr import Program
from afterglow.memory.timeline import Allocation, Timeline, kind_of, origin_of, work_of
from afterglow.support.lazy_dataclass import dataclass
from afterglow.support.svg import COLOURS, round_step, svg_line, svg_text

_LEFT, _RIGHT, _TOP, _BOTTOM = 84, 24, 66, 78
_HEIGHT = 460
_NARROWEST, _WIDEST, _STEP_WIDTH = 760, 2000, 14
_LETTER = 6.5
"""Width of a letter of a name, about."""
_OTHER_COLOUR = "#8f8a87"

_STYLE = """
text { font: 11px "DejaVu Sans", Verdana, sans-serif; fill: #333; }
.title { font-size: 15px; font-weight: bold; }
.buffer { stroke: #fff; stroke-width: 0.6; }
.buffer:hover { stroke: #000; stroke-width: 1.5; }
.name { fill: #fff; pointer-events: none; }
.grid { stroke: #e4e4e4; stroke-width: 1; }
.axis { stroke: #666; stroke-width: 1; }
.arena { stroke: #333; stroke-width: 1.2; }
.bound { stroke: #c00; stroke-width: 1.2; stroke-dasharray: 6 4; }
.peak { stroke: #c00; stroke-width: 1.2; }
.live { fill: #e9e9e9; }
.red { fill: #c00; }
""".strip()


def memory_svg(program: Program, lower_bound_bytes: int, title: str = "") -> str:
    """The planned arena as SVG: instructions from left to right, addresses from bottom to top.

    Rectangles carry a tooltip, and their name where there is room; their colour says which op made
    them. The peak is marked, and the lower bound: no plan of this program needs less.
    """
    return _Picture(Timeline(program), lower_bound_bytes, title or program.name).draw()


@dataclass(frozen=True)
class _Box:
    """A rectangle on the page."""

    x: float
    y: float
    width: float
    height: float


class _Picture:
    """The page: its scales, and what is drawn on it."""

    def __init__(self, timeline: Timeline, bound: int, title: str) -> None:
        self.timeline = timeline
        self.bound = bound
        self.title = title
        self.arena = timeline.program.arena_bytes or 0
        self.times = max(len(timeline.steps), 1)
        self.width = min(max(_NARROWEST, _STEP_WIDTH * self.times), _WIDEST)
        self.colours = _colours_of(timeline.allocations)

    def draw(self) -> str:
        """All of it, back to front."""
        width, height = _LEFT + self.width + _RIGHT, _TOP + _HEIGHT + _BOTTOM
        parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
            f'width="{width}" height="{height}">',
            f"<style>{_STYLE}</style>",
            f'<rect width="{width}" height="{height}" fill="#fff"/>',
            *self._heading(),
            self._live_area(),
            *self._address_axis(),
            *self._time_axis(),
            *(self._buffer(each) for each in self.timeline.allocations if each.nbytes),
            *self._marks(),
            *(name for each in self.timeline.allocations for name in self._name(each)),
            *self._legend(height - 18),
        ]
        return "\n".join([*parts, "</svg>"]) + "\n"

    def _x(self, time: float) -> float:
        return _LEFT + time * self.width / self.times

    def _y(self, address: float) -> float:
        highest = max(self.arena, self.bound, 1)
        return _TOP + _HEIGHT * (1 - address / highest)

    def _box(self, allocation: Allocation) -> _Box:
        left, right = self._x(allocation.start), self._x(allocation.last + 1)
        top, bottom = self._y(allocation.address + allocation.nbytes), self._y(allocation.address)
        return _Box(left, top, max(right - left, 1), max(bottom - top, 0.5))

    def _heading(self) -> Iterator[str]:
        total = sum(allocation.nbytes for allocation in self.timeline.allocations)
        ratio = self.arena / self.bound if self.bound else 1
        yield svg_text(_LEFT, 24, self.title, "title")
        yield svg_text(
            _LEFT,
            42,
            f"arena {self.arena:,} B, {ratio:.3f} times the lower bound; "
            f"{len(self.timeline.allocations)} buffers, {total:,} B without sharing",
        )

    def _address_axis(self) -> Iterator[str]:
        for address in _address_ticks(max(self.arena, self.bound)):
            y = self._y(address)
            yield svg_line(_LEFT, y, _LEFT + self.width, y, "grid")
            yield svg_text(_LEFT - 6, y + 4, bytes_text(address), anchor="end")
        yield svg_line(_LEFT, _TOP, _LEFT, _TOP + _HEIGHT, "axis")

    def _time_axis(self) -> Iterator[str]:
        y = _TOP + _HEIGHT
        yield svg_line(_LEFT, y, _LEFT + self.width, y, "axis")
        for time in range(0, self.times, max(1, int(round_step(self.times, 25)))):
            x = self._x(time + 0.5)
            yield svg_line(x, y, x, y + 4, "axis")
            yield svg_text(x, y + 16, str(time), anchor="middle")
        yield svg_text(_LEFT + self.width / 2, y + 34, "instruction", anchor="middle")

    def _buffer(self, allocation: Allocation) -> str:
        box = self._box(allocation)
        colour = self.colours.get(kind_of(allocation.maker), _OTHER_COLOUR)
        return (
            f'<rect class="buffer" x="{box.x:.1f}" y="{box.y:.1f}" width="{box.width:.1f}" '
            f'height="{box.height:.1f}" fill="{colour}">'
            f"<title>{escape(_tooltip(allocation))}</title></rect>"
        )

    def _name(self, allocation: Allocation) -> Iterator[str]:
        """The name inside the rectangle, along its longer side, if most of it fits."""
        box, name = self._box(allocation), allocation.buffer.name
        upright = box.height > box.width and len(name) * _LETTER > box.width
        room, thickness = (box.height, box.width) if upright else (box.width, box.height)
        shown = _shortened(name, int((room - 6) / _LETTER))
        if thickness < 13 or not shown:
            return
        x, y = box.x + box.width / 2, box.y + box.height / 2
        turn = f' transform="rotate(-90 {x:.1f} {y:.1f})"' if upright else ""
        yield (
            f'<text class="name" x="{x:.1f}" y="{y + 4:.1f}" text-anchor="middle"{turn}>'
            f"{escape(shown)}</text>"
        )

    def _live_area(self) -> str:
        """How many bytes are there: seen where buffers do not lie side by side from 0 on."""
        points = [f"{self._x(0):.1f},{self._y(0):.1f}"]
        for time, live in enumerate(self.timeline.live_bytes):
            y = self._y(live)
            points += [f"{self._x(time):.1f},{y:.1f}", f"{self._x(time + 1):.1f},{y:.1f}"]
        points.append(f"{self._x(self.times):.1f},{self._y(0):.1f}")
        return f'<polygon class="live" points="{" ".join(points)}"/>'

    def _marks(self) -> Iterator[str]:
        """The arena's end, the lower bound, and the peak."""
        right = _LEFT + self.width
        arena, bound = self._y(self.arena), self._y(self.bound)
        yield svg_line(_LEFT, arena, right, arena, "arena")
        yield svg_line(_LEFT, bound, right, bound, "bound")
        text = f"lower bound {self.bound:,} B"
        inside = bound - arena >= 14
        yield svg_text(right, bound - 5 if inside else arena - 5, text, "red", anchor="end")
        if not self.timeline.steps:
            return
        peak = self.timeline.peak
        x = self._x(peak + 0.5)
        yield svg_line(x, _TOP - 4, x, _TOP + _HEIGHT, "peak")
        live = f"peak: {self.timeline.live_bytes[peak]:,} B live at instruction {peak}"
        half = len(live) * _LETTER / 2
        x = min(max(x, _LEFT + half), right - half - (0 if inside else len(text) * _LETTER + 12))
        yield svg_text(x, _TOP - 8, live, "red", anchor="middle")

    def _legend(self, y: float) -> Iterator[str]:
        x = float(_LEFT)
        entries = [*self.colours.items(), ("other", _OTHER_COLOUR)]
        kinds = {kind_of(allocation.maker) for allocation in self.timeline.allocations}
        if kinds <= self.colours.keys():
            entries.pop()
        for kind, colour in entries:
            yield f'<rect x="{x:.1f}" y="{y - 9}" width="11" height="11" fill="{colour}"/>'
            yield svg_text(x + 15, y, kind)
            x += 32 + len(kind) * 7
        yield f'<rect class="live" x="{x:.1f}" y="{y - 9}" width="11" height="11"/>'
        yield svg_text(x + 15, y, "bytes live")


def bytes_text(count: int) -> str:
    """A number of bytes in the unit that suits it."""
    for unit, size in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if count >= size:
            return f"{count / size:.2f}".rstrip("0").rstrip(".") + f" {unit}"
    return f"{count} B"


def _colours_of(allocations: Sequence[Allocation]) -> dict[str, str]:
    """A colour for each of the kinds of instruction that make most bytes."""
    made: dict[str, int] = {}
    for allocation in allocations:
        kind = kind_of(allocation.maker)
        made[kind] = made.get(kind, 0) + allocation.nbytes
    largest = sorted(made, key=lambda kind: (-made[kind], kind))
    return dict(zip(largest, COLOURS, strict=False))


def _tooltip(allocation: Allocation) -> str:
    origin = origin_of(allocation.maker)
    lines = [
        f"{allocation.buffer}: {allocation.buffer.type}",
        f"{allocation.nbytes:,} B at {allocation.address:,}",
        f"instructions {allocation.start} to {allocation.last}",
        f"made by {work_of(allocation.maker)}" + (f", from {origin}" if origin else ""),
    ]
    return "\n".join(lines)


def _shortened(name: str, letters: int) -> str:
    """The name, or its beginning; nothing if too little would be left."""
    if len(name) <= letters:
        return name
    return f"{name[: letters - 1]}…" if letters >= 6 else ""


def _address_ticks(highest: int) -> range:
    """At most nine addresses, at multiples of a power of two."""
    step = 1 << max(math.ceil(math.log2(max(highest, 8) / 8)), 0)
    return range(0, highest + 1, step)
