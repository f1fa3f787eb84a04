"""Generate texts for a long time: do interrupted ones stay right, and does memory stay the same?

    python -m benchmarks.text_endurance stories15M.gguf --minutes 60

Prompts run several at once. Streams are consumed in turns; some pause while others run, some are
abandoned at a random token and their tokens given as a new prompt. What comes out is compared with
what the same prompt gave alone and in one piece. A line a minute says how much memory the process
has; the exit status is 1 if a text differs.
"""

from __future__ import annotations

import os
import random
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

import click

import afterglow as ag
from afterglow.text import Generator

PROMPTS = ["Once upon a time", "The little dog", "One day, Tom and", "She was very sad because"]
SAMPLED = {"temperature": 0.8, "top_k": 40}
ROUND = 12
"""Texts of a round, more than run at once."""


@dataclass
class Tally:
    """What happened so far."""

    texts: int = 0
    tokens: int = 0
    continued: int = 0
    different: list[str] = field(default_factory=list)
    memory: list[tuple[float, float]] = field(default_factory=list)
    """Minutes, and megabytes."""


@dataclass(frozen=True)
class Text:
    """A prompt with its options, and the tokens that it gave alone."""

    prompt: str
    options: dict[str, float]
    tokens: tuple[int, ...]


@click.command(help=__doc__)
@click.argument("model", type=click.Path(exists=True, path_type=Path))
@click.option("--minutes", default=60.0, show_default=True)
@click.option("--sequences", default=4, show_default=True, help="Texts at once.")
@click.option("--tokens", default=120, show_default=True, help="The most of a text.")
@click.option("--threads", default=1, show_default=True)
def main(model: Path, minutes: float, sequences: int, tokens: int, threads: int) -> None:
    """Run for some minutes."""
    generator = ag.text.Generator(model, sequences=sequences, threads=threads)
    texts = [_alone(generator, prompt, tokens, seed) for prompt in PROMPTS for seed in (None, 1, 2)]
    tally, rng = Tally(), random.Random(0)
    start = time.monotonic()
    while (passed := (time.monotonic() - start) / 60) < minutes:
        if not tally.memory or passed >= tally.memory[-1][0] + 1:
            tally.memory.append((passed, _megabytes()))
            print(_line(tally), flush=True)
        _round(generator, [rng.choice(texts) for _ in range(ROUND)], tokens, rng, tally)
    tally.memory.append((passed, _megabytes()))
    print(_line(tally))
    print(*tally.different, sep="\n")
    sys.exit(bool(tally.different))


def _alone(generator: Generator, prompt: str, tokens: int, seed: int | None) -> Text:
    options = {} if seed is None else {**SAMPLED, "seed": seed}
    return Text(prompt, options, generator.generate(prompt, tokens, **options).tokens)


def _round(
    generator: Generator, texts: list[Text], tokens: int, rng: random.Random, tally: Tally
) -> None:
    """Generate texts together, a random stream taking its turn each time."""
    going = {number: _tokens(generator, text, tokens, rng) for number, text in enumerate(texts)}
    found: dict[int, list[int]] = {number: [] for number in going}
    while going:
        number = rng.choice([*going])
        for _ in range(rng.randrange(1, 20)):
            token = next(going[number], None)
            if token is None:
                del going[number]
                break
            found[number].append(token)
    for number, text in enumerate(texts):
        tally.texts += 1
        tally.tokens += len(found[number])
        tally.continued += not text.options
        if tuple(found[number]) != text.tokens:
            tally.different.append(f"{text}: got {found[number]}")


def _tokens(generator: Generator, text: Text, tokens: int, rng: random.Random) -> Iterator[int]:
    """The tokens of a text; greedy ones are abandoned somewhere and continued as a new prompt."""
    given: list[int] = []
    if not text.options and text.tokens:
        abandoned = rng.randrange(1, len(text.tokens) + 1)
        for piece in islice(generator.stream(text.prompt, tokens), abandoned):
            given += piece.tokens
            yield from piece.tokens
    assert generator.tokenizer is not None
    prompt = [*generator.tokenizer.encode(text.prompt), *given]
    if len(given) < tokens:
        for piece in generator.stream(prompt, tokens - len(given), **text.options):
            yield from piece.tokens


def _megabytes() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def _line(tally: Tally) -> str:
    minutes, megabytes = tally.memory[-1]
    return (
        f"{minutes:5.1f} min: {megabytes:.1f} MB, {tally.texts} texts, {tally.tokens} tokens, "
        f"{tally.continued} abandoned and continued, {len(tally.different)} different"
    )


if __name__ == "__main__":
    main()
