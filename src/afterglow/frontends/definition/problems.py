"""Everything that is in the way of importing a model, and how it reads as one error."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from afterglow.support.errors import (
    AfterglowError,
    IndexRangeError,
    MemoryLimitError,
    ModelError,
    UnsupportedError,
)
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types.extent import UndecidedExtentError

_MOST_NAMES = 3
_MOST_LINES = 100


class NeedsInliningError(UnsupportedError):
    """A body of If, Loop or Scan cannot be a function of its own: only its copy in place works."""


class ChangesTypesError(NeedsInliningError):
    """That is so because values that a loop carries change their types: it will be so anywhere."""


class GrownReadError(NeedsInliningError):
    """A value is read that has no type, as it grew by as much as only data tell."""

    node: object = None
    """The node that reads it, in the graph that is being imported."""
    names: Sequence[str] = ()
    """What values that it reads, and that have no type, are called there."""

    def __init__(self) -> None:
        super().__init__("a value is read that grew by as much as only data tell")


@dataclass(frozen=True)
class GrowthStep:
    """How a value that a loop carries becomes longer in an iteration.

    Along an axis, by as much; or by no more, if it belongs to a group: then data tell by how much,
    and the values of a group grow by the same. If it `is_whole`, it is another value each time, and
    data tell how long that is: the values of a group are equally long.
    """

    axis: int
    by: int
    group: int | None = None
    is_whole: bool = False
    ends_at_none: bool = False
    """Whether the loop ends once it has no element."""
    shrinks: int = 0
    """By how much it becomes shorter at least until then."""


class GrowsError(ChangesTypesError):
    """The values that a loop carries become longer along an axis."""

    def __init__(
        self,
        steps: Sequence[GrowthStep | None],
        most: float,
        *,
        is_counted: bool,
        is_told_by_data: bool,
    ) -> None:
        super().__init__("carried values change their types")
        self.steps = steps
        """How each carried value grows; None: it stays."""
        self.most = most
        """How often the loop runs at most."""
        self.is_counted = is_counted
        """Whether only its limit ends the loop."""
        self.is_told_by_data = is_told_by_data
        """Whether data tell how much longer some values become."""


class DataFileError(ModelError):
    """A file that holds the data of tensors cannot be read."""

    def __init__(self, file: str, reason: str) -> None:
        super().__init__(f"its data are in the file {file!r}, which cannot be read: {reason}")
        self.file = file
        self.reason = reason


@dataclass(frozen=True)
class Problem:
    """An error, and the op and node that it is about; both are empty if it is about neither.

    `place` is the line of the user's program, if it is known.
    """

    error: AfterglowError
    op: str = ""
    node: str = ""
    place: str = ""

    @property
    def where(self) -> str:
        """The node, its op and its line, if it is about one."""
        at = f", at {self.place}" if self.place else ""
        return f"in node {self.node} ({self.op}){at}" if self.op else ""


class ProblemsError(AfterglowError):
    """Problems of one graph, on their way to the graph around it."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__(f"{len(problems)} problems")
        self.problems = tuple(problems)


def import_error(problems: Sequence[Problem], help: str = "") -> AfterglowError:
    """One error for all of them: a sentence if it is one, a line each if there are more."""
    problems = _one_for_each_file(problems)
    kinds = (UnsupportedError, MemoryLimitError)
    alike = (k for k in kinds if all(isinstance(problem.error, k) for problem in problems))
    kind: type[AfterglowError] = next(alike, ModelError)
    if any(isinstance(problem.error, UndecidedExtentError) for problem in problems):
        kind = UndecidedExtentError
    if len(problems) == 1:
        error = problems[0].error
        if isinstance(error, IndexRangeError):  # about what data hold, and says where
            return error
        where = problems[0].where
        return kind(error.what, where=where, excerpt=error.excerpt, help=help or error.help)
    lines = _lines(problems)
    if len(lines) > _MOST_LINES:
        lines = [*lines[:_MOST_LINES], f"and {len(lines) - _MOST_LINES} more"]
    what = f"the model cannot be imported: {len(problems)} problems"
    return kind(what, excerpt=lines, help=help)


def _one_for_each_file(problems: Sequence[Problem]) -> list[Problem]:
    """The problems, with those of all tensors in one file that cannot be read as one."""
    files = Counter(p.error.file for p in problems if isinstance(p.error, DataFileError))
    found: dict[str | int, Problem] = {}
    for place, problem in enumerate(problems):
        error = problem.error
        if isinstance(error, DataFileError) and files[error.file] > 1:
            found[error.file] = Problem(_unread_file(error, files[error.file]))
        else:
            found[place] = problem
    return list(found.values())


def _unread_file(error: DataFileError, tensors: int) -> ModelError:
    return ModelError(
        f"the file {error.file!r}, which holds the data of {tensors:,} tensors, "
        f"cannot be read: {error.reason}",
        help="put it where the model's own file is",
    )


def _lines(problems: Sequence[Problem]) -> list[str]:
    """A line for each problem; nodes that have the same one share it."""
    nodes: dict[tuple[str, str], list[str]] = {}
    for problem in problems:
        why = problem.error.what + (f"; {problem.error.help}" if problem.error.help else "")
        at = f" at {problem.place}" if problem.place else ""
        nodes.setdefault((problem.op, why), []).append(problem.node + at)
    return [f"{_subject(op, names)}{why}" for (op, why), names in nodes.items()]


def _subject(op: str, nodes: Sequence[str]) -> str:
    if not op:
        return ""
    shown = ", ".join(nodes[:_MOST_NAMES])
    more = len(nodes) - _MOST_NAMES
    rest = f" and {more} more" if more > 0 else ""
    return f"{op}, node{'s' if len(nodes) > 1 else ''} {shown}{rest}: "
