"""The page: the facts of a report with the code that shows them, in one file."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from html import escape
from importlib.resources import files
from typing import Any

SCRIPTS = (
    "core.js",
    "details.js",
    "graph.js",
    "memory.js",
    "roofline.js",
    "times.js",
    "partition.js",
    "quantization.js",
    "texts.js",
    "main.js",
)
"""In this order: each uses what those before it define."""


def report_page(facts: Mapping[str, Any]) -> str:
    """A page that needs nothing else: no other file, and no network."""
    parts = {
        "title": escape(f"{facts['model']} – Afterglow report"),  # noqa: RUF001  a dash in a title
        "style": _asset("page.css"),
        "facts": embedded_json(facts),
        "script": "\n".join(map(_asset, SCRIPTS)),
    }
    return re.sub(r"\{\{(\w+)\}\}", lambda place: parts[place[1]], _asset("template.html"))


def embedded_json(data: object) -> str:
    """JSON that can stand in a script element: nothing in it ends the element or opens another."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    for letter in "<>&\u2028\u2029":
        text = text.replace(letter, f"\\u{ord(letter):04x}")
    return text


def _asset(name: str) -> str:
    return files(__package__).joinpath("assets", name).read_text(encoding="utf-8")
