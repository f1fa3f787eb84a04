"""Pictures of plans: tasks and what passes between them, and devices over time."""

from __future__ import annotations

import json
from collections.abc import Iterator
from html import escape

from afterglow.memory.picture import bytes_text
from afterglow.partition.plan import PartitionPlan, PlacedTask, Transfer
from afterglow.support.durations import duration
from afterglow.support.lazy_dataclass import dataclass
from afterglow.support.svg import COLOURS, svg_text

_LEFT, _RIGHT, _TOP, _ROW, _WIDTH = 110, 24, 66, 58, 1100
_BAR = 34
_LETTER = 6.5
"""Width of a letter of a name, about."""
_STYLE = """
text { font: 11px "DejaVu Sans", Verdana, sans-serif; fill: #333; }
.title { font-size: 15px; font-weight: bold; }
.task { stroke: #fff; stroke-width: 0.6; }
.task:hover { stroke: #000; stroke-width: 1.5; }
.name { fill: #fff; pointer-events: none; }
.way { stroke: #c00; stroke-width: 1.2; }
.axis { stroke: #999; stroke-width: 1; }
""".strip()


def plan_dot(plan: PartitionPlan) -> str:
    """The plan in Graphviz's language: a frame a device, a box a task, red edges for transfers."""
    lines = ['digraph "partition" {', '  node [fontname="Helvetica", fontsize=10];']
    made = {value: f"t{number}" for number, task in enumerate(plan.tasks) for value in task.gives}
    crossing = {(each.value, each.to): each for each in plan.transfers}
    for number, device in enumerate(plan.devices):
        lines.append(f"  subgraph cluster{number} {{")
        lines.append(f"    label={json.dumps(device.name)};")
        lines += [_box(place, t) for place, t in enumerate(plan.tasks) if t.device == device.name]
        lines.append("  }")
    inputs = dict.fromkeys(v for task in plan.tasks for v in task.reads if v not in made)
    for number, value in enumerate(inputs):
        made[value] = f"in{number}"
        lines.append(f"  in{number} [shape=ellipse, label={json.dumps(value)}];")
    for number, task in enumerate(plan.tasks):
        for value in task.reads:
            label = _edge_label(value, crossing.get((value, task.device)))
            lines.append(f"  {made[value]} -> t{number} [{label}];")
    return "\n".join([*lines, "}"]) + "\n"


def _box(number: int, task: PlacedTask) -> str:
    label = "\n".join((task.name, ", ".join(task.nodes), duration(task.seconds)))
    return f"    t{number} [shape=box, label={json.dumps(label)}];"


def _edge_label(value: str, crossing: Transfer | None) -> str:
    if crossing is None:
        return f"label={json.dumps(value)}, fontsize=8"
    label = f"{value}\n{bytes_text(crossing.nbytes)}, {duration(crossing.seconds)}"
    return f"label={json.dumps(label)}, fontsize=8, color=red"


def plan_svg(plan: PartitionPlan, title: str = "partition") -> str:
    """One run as SVG: a row a device, time from left to right, red lines for transfers."""
    return _Picture(plan, title).draw()


@dataclass(frozen=True)
class _Step:
    """Something that happens in a run, from `start` on."""

    start: float
    what: PlacedTask | Transfer


def steps_of(plan: PartitionPlan) -> Iterator[_Step]:
    """A run in which nothing overlaps: each value crosses just before it is needed."""
    waiting = list(plan.transfers)
    clock = 0.0
    for task in plan.tasks:
        arriving = [t for t in waiting if t.to == task.device and t.value in task.reads]
        waiting = [transfer for transfer in waiting if transfer not in arriving]
        steps: list[PlacedTask | Transfer] = [*arriving, task]
        for step in steps:
            yield _Step(clock, step)
            clock += step.seconds
    for transfer in waiting:
        yield _Step(clock, transfer)
        clock += transfer.seconds


class _Picture:
    """The page: its scales, and what is drawn on it."""

    def __init__(self, plan: PartitionPlan, title: str) -> None:
        self.plan, self.title = plan, title
        self.rows = {device.name: row for row, device in enumerate(plan.devices)}
        self.scale = _WIDTH / (plan.seconds or 1.0)

    def draw(self) -> str:
        """All of it."""
        width = _LEFT + _WIDTH + _RIGHT
        height = _TOP + _ROW * len(self.rows) + 20
        steps = [*steps_of(self.plan)]
        parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
            f'width="{width}" height="{height}">',
            f"<style>{_STYLE}</style>",
            f'<rect width="{width}" height="{height}" fill="#fff"/>',
            svg_text(_LEFT, 24, self.title, "title"),
            svg_text(_LEFT, 42, self._summary()),
            *(line for device in self.rows for line in self._axis(device)),
            *(line for step in steps for line in self._step(step)),
        ]
        return "\n".join([*parts, "</svg>"]) + "\n"

    def _summary(self) -> str:
        alone = ", ".join(
            f"{d.name} alone {duration(d.alone)}" for d in self.plan.devices if d.alone is not None
        )
        sent = bytes_text(sum(transfer.nbytes for transfer in self.plan.transfers))
        times = f"{duration(self.plan.seconds)} a run; {alone or 'no device can run it alone'}"
        return f"{times}; {len(self.plan.transfers)} transfers, {sent}"

    def _axis(self, device: str) -> Iterator[str]:
        y = self._y(device) + _BAR
        yield f'<line class="axis" x1="{_LEFT}" x2="{_LEFT + _WIDTH}" y1="{y}" y2="{y}"/>'
        yield svg_text(_LEFT - 8, y - _BAR / 2 + 4, device, anchor="end")

    def _y(self, device: str) -> int:
        return _TOP + _ROW * self.rows[device]

    def _step(self, step: _Step) -> Iterator[str]:
        x, width = _LEFT + step.start * self.scale, step.what.seconds * self.scale
        if isinstance(step.what, Transfer):
            yield self._way(step.what, x, width)
            return
        task = step.what
        y, colour = self._y(task.device), COLOURS[self.rows[task.device] % len(COLOURS)]
        tip = escape(f"{task.name}: {duration(task.seconds)}, {task.reason}")
        yield (
            f'<rect class="task" x="{x:.1f}" y="{y}" width="{max(width, 1):.1f}" '
            f'height="{_BAR}" fill="{colour}"><title>{tip}</title></rect>'
        )
        if len(task.name) * _LETTER < width - 6:
            yield svg_text(x + 4, y + _BAR / 2 + 4, task.name, "name")

    def _way(self, transfer: Transfer, x: float, width: float) -> str:
        first, last = self.rows[transfer.source], self.rows[transfer.to]
        start = _TOP + _ROW * first + (_BAR if first < last else 0)
        end = _TOP + _ROW * last + (0 if first < last else _BAR)
        tip = escape(
            f"{transfer.value}: {bytes_text(transfer.nbytes)}, {duration(transfer.seconds)}"
        )
        return (
            f'<line class="way" x1="{x:.1f}" y1="{start}" x2="{x + width:.1f}" y2="{end}">'
            f"<title>{tip}</title></line>"
        )
