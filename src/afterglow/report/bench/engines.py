"""The engines that can be compared, and how to get them."""

from __future__ import annotations

from afterglow.report.bench.engine_process.registry import ENGINES, OURS

PEERS = tuple(name for name in ENGINES if name != OURS)


def pip_words(peer: str) -> list[list[str]]:
    """What to tell pip, command by command, so that a Python has a peer."""
    engine = ENGINES[peer]
    alone = [["install", "--no-deps", *engine.alone]] if engine.alone else []
    return [["install", *engine.packages], *alone]


def how_to_install(peer: str, python: str) -> str:
    """What to type, so that a Python has a peer."""
    return " && ".join(f"{python} -m pip {' '.join(words)}" for words in pip_words(peer))
