"""Which cases of ops a backend computes for ranges, and why not the others.

    python -m tests.testing.ranged_table cpu [PATTERN]

Each case runs in a process of its own, so that one that crashes is a line of the table.
"""

from __future__ import annotations

import os
import pickle
import sys
import traceback
import warnings
from collections import Counter
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Any

from afterglow.support.errors import TypeRuleError
from afterglow.testing import BackendConformance
from afterglow.testing.cases import CASES, Case
from afterglow.testing.ranged_cases import ranged_cases
from afterglow.types.extent import UndecidedExtentError

FULL, FEWER, REFUSED, NO_TYPE, WRONG, CRASH = (
    "ranged",
    "ranged with fewer dimensions",
    "refused by the backend",
    "refused by the type rule",
    "wrong",
    "crashed",
)


@dataclass(frozen=True)
class Outcome:
    """What became of a case."""

    kind: str
    text: str
    reason: str = ""


def outcome(checks: BackendConformance, case: Case) -> Outcome:
    """Compile a case with as many dimensions as the backend takes, and compare its runs."""
    refused: list[Outcome] = []
    try:
        for made in ranged_cases(case):
            try:
                checks.check_runs(checks.compiled(made.function()), made)
            except UndecidedExtentError as error:
                refused.append(Outcome(REFUSED, str(made), _reason(error)))
            except Exception as error:
                return Outcome(WRONG, str(made), _reason(error))
            else:
                return replace(refused[0], kind=FEWER) if refused else Outcome(FULL, str(made))
    except (TypeRuleError, ValueError) as error:
        return Outcome(NO_TYPE, str(case), _reason(error))
    return refused[0]


def _reason(error: Exception) -> str:
    """The first line of what is wrong, and where in the compiler."""
    frames = traceback.extract_tb(error.__traceback__)
    inside = [f for f in frames if "/afterglow/" in f.filename and "types/extent" not in f.filename]
    place = f"{inside[-1].filename.partition('/afterglow/')[2]}:{inside[-1].lineno}"
    what = " ".join(str(getattr(error, "what", error)).split())[:200]
    notes = " ".join(getattr(error, "__notes__", ()))[:60]
    return f"{type(error).__name__}: {what} [{place}] {notes}".rstrip()


def apart(checks: BackendConformance, case: Case) -> Outcome:
    """The outcome, found by another process."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        with os.fdopen(writing, "wb") as pipe:
            pickle.dump(outcome(checks, case), pipe)
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        data = pipe.read()
    _, status = os.waitpid(child, 0)
    return pickle.loads(data) if data else Outcome(CRASH, str(case), f"signal {status & 127}")


def main(backend: str, pattern: str = "*") -> None:
    """Print the table."""
    settings: dict[str, Any] = {"backend": backend, "complete": True, "options": {"threads": 1}}
    checks = type("Checks", (BackendConformance,), settings)()
    cases = [case for case in CASES if fnmatchcase(case.op.mnemonic, pattern)]
    found = [(case.op.mnemonic, apart(checks, case)) for case in cases]
    for kind in (CRASH, WRONG, REFUSED, FEWER, NO_TYPE):
        here = [(mnemonic, each) for mnemonic, each in found if each.kind == kind]
        ops = Counter(mnemonic for mnemonic, _ in here).most_common()
        print(f"\n{kind}: {len(here)}; " + ", ".join(f"{name} {count}" for name, count in ops))
        for _, each in here:
            print(f"  {each.text}\n      {each.reason}")
    print("\n" + ", ".join(f"{kind} {n}" for kind, n in Counter(e.kind for _, e in found).items()))


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main(*sys.argv[1:])
