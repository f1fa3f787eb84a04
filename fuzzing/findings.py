"""Findings: what they have in common, how often they came, and files that show them."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from pathlib import Path

from fuzzing.outcome import ROOT, Outcome

REGRESSIONS = ROOT / "tests" / "fuzzing" / "regressions"
"""Examples that once were findings, a folder a kind; the tests check each."""


@dataclass
class Finding:
    """A fault, with the first example that showed it."""

    kind: str
    outcome: Outcome
    seed: int
    path: Path
    times: int = 1

    @property
    def title(self) -> str:
        """One line about it."""
        return f"{self.kind}: {self.outcome.title}"


@dataclass
class Findings:
    """The findings of a campaign, each signature once, as files in a folder."""

    folder: Path
    found: dict[tuple[str, str], Finding] = field(default_factory=dict)

    def add(self, kind: str, suffix: str, seed: int, outcome: Outcome, example: bytes) -> Finding:
        """Count a finding; the first of its signature is stored."""
        key = kind, outcome.title
        if key in self.found:
            self.found[key].times += 1
            return self.found[key]
        digest = hashlib.sha256(outcome.title.encode()).hexdigest()[:10]
        path = self.folder / kind / f"{digest}{suffix}"
        self.found[key] = finding = Finding(kind, outcome, seed, path)
        store(finding, example)
        return finding

    def of(self, kind: str) -> list[Finding]:
        """The findings of one kind."""
        return [finding for (name, _), finding in self.found.items() if name == kind]


def store(finding: Finding, example: bytes) -> None:
    """Write the example of a finding, and a text about it."""
    finding.path.parent.mkdir(parents=True, exist_ok=True)
    finding.path.write_bytes(example)
    again = f"python -m fuzzing --replay {finding.path}"
    head = f"{finding.title}\nseed {finding.seed}; to see it again: {again}\n\n"
    finding.path.with_suffix(".txt").write_text(head + finding.outcome.text)
