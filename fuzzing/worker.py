"""A worker process: makes examples, checks them under limits, and reports on a pipe.

Started by `fuzzing.process`. Each line of standard input is a request, `seed N` or `file PATH`; the
answers are lines of JSON. The example that is being checked lies in a file, in case of a crash.
"""

from __future__ import annotations

import faulthandler
import json
import os
import sys
import warnings
from pathlib import Path
from typing import IO

from fuzzing.kind import Kind, Setup
from fuzzing.kinds import load_kind
from fuzzing.limits import MOST_BYTES, address_space, limit_memory
from fuzzing.outcome import Outcome, Verdict, outcome_of

MOST_GROWTH = MOST_BYTES // 4
"""Bytes that may be left of earlier examples before the process is replaced."""


def main() -> None:
    """Serve requests until standard input ends."""
    name, scratch, corpus, current, pipe = sys.argv[1:]
    faulthandler.enable()
    warnings.simplefilter("ignore")
    setup = Setup(Path(scratch), Path(corpus) if corpus else None)
    kind = load_kind(name)(setup)
    with os.fdopen(int(pipe), "w", buffering=1) as reports:
        _report(reports, ready=True)
        serve(kind, sys.stdin, reports, Path(current))


def serve(kind: Kind, requests: IO[str], reports: IO[str], current: Path) -> None:
    """Answer each request with two lines: when its check begins, and how it ended."""
    at_first = address_space()
    limit_memory()
    for request in requests:
        what, _, argument = request.strip().partition(" ")
        example, outcome = made(kind, int(argument)) if what == "seed" else read(Path(argument))
        if example is not None:
            current.write_bytes(example)
            _report(reports, begins=True)
            outcome = outcome_of(kind, example)
        full = address_space() - at_first > MOST_GROWTH
        _report(
            reports,
            verdict=outcome.verdict.value,
            signature=outcome.signature,
            text=outcome.text,
            full=full,
        )
        if full:
            return


def made(kind: Kind, seed: int) -> tuple[bytes | None, Outcome]:
    """The example of a seed; none, and why, if making it fails."""
    try:
        return kind.make(seed), Outcome(Verdict.PASSED)
    except Exception as error:
        return None, Outcome(Verdict.SKIPPED, text=f"not made: {error!r}")


def read(path: Path) -> tuple[bytes, Outcome]:
    """The example in a file."""
    return path.read_bytes(), Outcome(Verdict.PASSED)


def _report(reports: IO[str], **fields: object) -> None:
    reports.write(json.dumps(fields) + "\n")


if __name__ == "__main__":
    main()
