"""The page of examples/browser after a digit was drawn: the picture, and what the model says."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import afterglow as ag
from pictures.page import Page

CELL = 22


def browser_picture(folder: Path) -> str:
    """A test image as the model sees it, and its probabilities as bars."""
    image = np.load(folder / "test_images.npz")["images"][2]
    model = ag.compile(folder / "digits.onnx", cache=False)
    (probabilities,) = model(image.astype(np.float32)[None, None])
    page = Page(560, 262)
    page.text(20, 24, "Draw a digit", "title")
    page.rectangle(20, 40, 8 * CELL, 8 * CELL, "paper")
    for (row, column), level in np.ndenumerate(image):
        if level:
            x, y = 20 + column * CELL, 40 + row * CELL
            page.pieces.append(
                f'<rect x="{x}" y="{y}" width="{CELL}" height="{CELL}" fill="#2b2b2b" '
                f'fill-opacity="{level / 16:.2f}"/>'
            )
    best = int(np.argmax(probabilities))
    page.text(20, 244, f"It is a {best}", "title")
    for digit, share in enumerate(probabilities):
        y = 46 + digit * 18
        page.text(244, y + 11, str(digit), "", "end")
        page.rectangle(252, y, max(1.0, 230 * float(share)), 13, "bar")
        page.text(260 + 230 * float(share), y + 11, f"{100 * share:.0f} %", "small")
    page.text(252, 244, "digits.wasm, in the page: no server", "small")
    return page.draw()
