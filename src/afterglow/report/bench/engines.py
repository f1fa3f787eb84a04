"""The engines that can be compared, and how to install them."""

from __future__ import annotations

from afterglow.report.bench.engine_process.registry import ENGINES, OURS

PEERS = tuple(name for name in ENGINES if name != OURS)


def pip_words(peer: str) -> list[list[str]]:
    """The arguments of the pip commands that install an engine."""
    engine = ENGINES[peer]
    alone = [["install", "--no-deps", *engine.alone]] if engine.alone else []
    return [["install", *engine.packages], *alone]


def how_to_install(peer: str, python: str) -> str:
    """The shell command that installs an engine for a Python interpreter."""
    return " && ".join(f"{python} -m pip {' '.join(words)}" for words in pip_words(peer))
