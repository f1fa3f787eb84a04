"""What any server of the Open Inference Protocol answers: a script for one or several of them.

`python -m benchmarks.serve_conformance http://127.0.0.1:8000 --model NAME [--grpc HOST:PORT]`
asks a server as plain JSON, through Triton's clients, and through KServe's where `kserve` is
installed, and prints one line a check. The model takes one FP32 input of shape [-1, 4] or [1, 4]
and gives back twice its input, so that answers of different servers can be compared.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator

from benchmarks.serve_conformance.plain_http import over_http
from benchmarks.serve_conformance.subject import Check, Subject
from benchmarks.serve_conformance.with_kserve import has_kserve, with_kserve
from benchmarks.serve_conformance.with_triton import with_triton_grpc, with_triton_http


def conformance(subject: Subject) -> list[Check]:
    """All checks of a server."""
    over_http(subject)
    with_triton_http(subject)
    with_triton_grpc(subject)
    with_kserve(subject)
    return subject.checks


def lines(checks: list[Check]) -> Iterator[str]:
    """A line for each check."""
    for check in checks:
        yield f"{'ok  ' if check.passed else 'FAIL'}  {check.name:45}  {check.answer}"


def main() -> None:
    """Check the server that arguments name."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url")
    parser.add_argument("--model", default="double")
    parser.add_argument("--grpc")
    given = parser.parse_args()
    subject = Subject(given.url.rstrip("/"), given.model, given.grpc)
    if reason := subject.unfit():
        parser.error(reason)
    checks = conformance(subject)
    print("\n".join(lines(checks)))
    if not has_kserve():
        print("not asked through KServe's clients: pip install kserve")
    sys.exit(any(not check.passed for check in checks))


if __name__ == "__main__":
    main()
