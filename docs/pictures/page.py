"""A drawing of boxes, arrows and texts, in colours for light and dark pages."""

from __future__ import annotations

from afterglow.support.svg import svg_line, svg_text

STYLE = """
text { font: 12px "DejaVu Sans", Verdana, sans-serif; fill: #2b2b2b; }
.title { font-size: 14px; font-weight: bold; }
.small { font-size: 10.5px; fill: #666; }
.box { fill: #f4f6f9; stroke: #8a97a8; }
.hot { fill: #fdeee3; stroke: #d9772b; }
.arrow { stroke: #7a7a7a; stroke-width: 1.4; marker-end: url(#head); }
.plain { stroke: #c9c9c9; }
.head { fill: #7a7a7a; }
.ink { fill: #2b2b2b; }
.bar { fill: #d9772b; }
.paper { fill: #fff; stroke: #8a97a8; }
@media (prefers-color-scheme: dark) {
text { fill: #e4e4e4; }
.small { fill: #a9a9a9; }
.box { fill: #2a303a; stroke: #71809a; }
.hot { fill: #46301f; stroke: #e08a45; }
.arrow { stroke: #a0a0a0; }
.plain { stroke: #555; }
.head { fill: #a0a0a0; }
}
""".strip()
HEAD = (
    '<marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
    'orient="auto"><path class="head" d="M0,0 L8,4 L0,8 z"/></marker>'
)


class Page:
    """What is drawn, piece by piece."""

    def __init__(self, width: int, height: int) -> None:
        self.width, self.height = width, height
        self.pieces: list[str] = []

    def text(self, x: float, y: float, text: str, kind: str = "", anchor: str = "start") -> None:
        """A line of text."""
        self.pieces.append(svg_text(x, y, text, kind, anchor))

    def rectangle(self, x: float, y: float, width: float, height: float, kind: str) -> None:
        """A rectangle with corners that are a little round."""
        size = f'width="{width:.1f}" height="{height:.1f}"'
        self.pieces.append(f'<rect class="{kind}" x="{x:.1f}" y="{y:.1f}" {size} rx="4"/>')

    def box(
        self, x: float, y: float, size: tuple[float, float], *lines: str, hot: bool = False
    ) -> None:
        """A rectangle with lines of text in it, the first one larger."""
        width, height = size
        self.rectangle(x, y, width, height, "hot" if hot else "box")
        top = y + height / 2 + 4 - 7.5 * (len(lines) - 1)
        for number, line in enumerate(lines):
            kind = "small" if number else ""
            self.text(x + width / 2, top + 15 * number, line, kind, "middle")

    def arrow(self, x1: float, y1: float, x2: float, y2: float) -> None:
        """An arrow from one point to another."""
        self.pieces.append(svg_line(x1, y1, x2, y2, "arrow"))

    def draw(self) -> str:
        """The drawing as SVG."""
        size = (
            f'viewBox="0 0 {self.width} {self.height}" width="{self.width}" height="{self.height}"'
        )
        head = f'<svg xmlns="http://www.w3.org/2000/svg" {size}>\n<style>{STYLE}</style>\n{HEAD}'
        return "\n".join([head, *self.pieces, "</svg>\n"])
