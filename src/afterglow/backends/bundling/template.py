"""Texts with gaps: `@name` or `@{name}` is replaced, `@@` is an at sign."""

from __future__ import annotations

from string import Template


class Text(Template):
    """A template whose mark means nothing in C, make or CMake."""

    delimiter = "@"
