"""What a kind of fuzzing is: how examples are made, and what must hold of each."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar


@dataclass(frozen=True)
class Setup:
    """What all workers of a campaign share: a folder for scratch files, and maybe a corpus."""

    scratch: Path
    corpus: Path | None = None


class Kind(ABC):
    """Makes examples from seeds and checks them.

    An example is the content of a file, so that every finding is a file that shows it. `check`
    returns if all is well and may raise any `AfterglowError`; whatever else it raises, and a crash,
    a hang and too much memory, is a finding.
    """

    name: ClassVar[str]
    suffix: ClassVar[str]
    """How files with examples end."""
    about: ClassVar[str]
    block: ClassVar[int] = 1
    """How many seeds in a row one worker should get, because they share work."""

    def __init__(self, setup: Setup) -> None:
        self.setup = setup

    @classmethod
    def prepare(cls, setup: Setup) -> None:
        """Write what workers need into the scratch folder; called once, before they start."""
        del setup

    @abstractmethod
    def make(self, seed: int) -> bytes:
        """The example of a seed."""

    @abstractmethod
    def check(self, example: bytes) -> None:
        """Raise if something that must hold of the example does not."""

    def label(self, example: bytes) -> str:
        """What tells apart crashes and hangs at one place: the ops of the example, say."""
        del example
        return ""

    def smaller(self, example: bytes) -> Iterator[bytes]:
        """Smaller examples that may show the same, the smallest first."""
        del example
        return iter(())


class Skipped(Exception):  # noqa: N818  not an error
    """There is nothing to check in this example."""


class Mismatch(Exception):  # noqa: N818  a finding, not an error of the fuzzer
    """Two ways to compute the same disagree."""

    def __init__(self, what: str, text: str) -> None:
        super().__init__(f"{what}: {text}")
        self.what = what
        """What the same fault says for every example that shows it."""
