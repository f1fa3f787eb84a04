"""What became of an example."""

from __future__ import annotations

import traceback
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path

from afterglow.support.errors import AfterglowError, VerifyError
from fuzzing.kind import Kind, Mismatch, Skipped

ROOT = Path(__file__).parents[1]
MOST_TEXT = 20_000
INTERNAL = 70
"""The exit status of errors that say that the fault is ours."""


class Verdict(Enum):
    """The ways in which a check can end."""

    PASSED = "passed"
    REFUSED = "refused"
    SKIPPED = "skipped"
    FINDING = "finding"


@dataclass(frozen=True)
class Outcome:
    """How a check ended; of findings what they have in common, and all that is known."""

    verdict: Verdict
    signature: str = ""
    text: str = ""
    label: str = ""

    @property
    def title(self) -> str:
        """What findings of the same fault have in common."""
        return f"{self.signature} [{self.label}]" if self.label else self.signature

    def labelled(self, label: str) -> Outcome:
        """The same, told apart from others at the same place in native code or in time."""
        native = self.signature.startswith(("SIG", "hang", "exit status"))
        return replace(self, label=label) if native else self


def outcome_of(kind: Kind, example: bytes) -> Outcome:
    """Check an example, whatever happens."""
    try:
        kind.check(example)
    except AfterglowError as error:
        return _refused(error)
    except Skipped as reason:
        return Outcome(Verdict.SKIPPED, text=str(reason))
    except Mismatch as error:
        return Outcome(Verdict.FINDING, f"mismatch {error.what}", str(error)[:MOST_TEXT])
    except BaseException as error:
        return finding(f"{type(error).__name__} {place_of(error)}", error)
    return Outcome(Verdict.PASSED)


def _refused(error: AfterglowError) -> Outcome:
    """A refusal, unless it is about a fault of Afterglow itself."""
    if isinstance(error, VerifyError) or error.exit_status == INTERNAL:
        fault = error.__cause__ or error
        return finding(f"internal {type(fault).__name__} {place_of(fault)}", error)
    return Outcome(Verdict.REFUSED, text=str(error)[:MOST_TEXT])


def finding(signature: str, error: BaseException) -> Outcome:
    """A finding with the whole traceback of an exception."""
    lines = traceback.format_exception(error, limit=-30)
    return Outcome(Verdict.FINDING, signature, "".join(lines)[-MOST_TEXT:])


def place_of(error: BaseException) -> str:
    """The innermost function of this repository that an exception passed through."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if Path(frame.filename).is_relative_to(ROOT)]
    if not ours:
        return "outside"
    return f"in {Path(ours[-1].filename).relative_to(ROOT)}:{ours[-1].name}"
