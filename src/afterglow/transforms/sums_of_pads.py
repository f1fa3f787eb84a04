"""Make concatenations of sums of padded tensors.

The gradient of what was sliced into parts is such a sum: each part has zeros where the others are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import reduce

from afterglow.graph import Builder, Node, Value
from afterglow.ops.elementwise import Add
from afterglow.ops.movement import Concat, Pad, PadMode
from afterglow.passes import RewritePass, rewrite
from afterglow.support.lazy_dataclass import dataclass
from afterglow.transforms.matching.values import has_one_use, is_filled
from afterglow.types.extent import is_ranged


@dataclass(frozen=True)
class _Part:
    """A tensor with zeros before and after it along one axis."""

    x: Value
    axis: int
    start: int
    end: int


@rewrite(Add)
def join_padded_terms(node: Node, b: Builder) -> Value | None:
    """pad(x, after) + pad(y, before)  ->  concat(x, y),  in sums of any terms.

    Parts are joined if one ends where the other begins; zeros that are left stay around them.
    """
    if _is_term(node):
        return None
    terms = [*_terms(node)]
    parts = [part for term in terms if (part := _part(term)) is not None]
    runs = [*_runs(parts)]
    if len(runs) == len(parts):
        return None
    others = [term for term in terms if _part(term) is None]
    joined = [_emit(b, run, node.result) for run in runs]
    return reduce(lambda total, term: b.emit(Add(), total, term), (*joined, *others))


def _is_term(node: Node) -> bool:
    """Whether the sum is a term of another one, which is rewritten as a whole."""
    users = node.result.users
    return has_one_use(node.result) and isinstance(users[0].op, Add) and _is_sum(users[0])


def _is_sum(node: Node) -> bool:
    return all(operand.type == node.result.type for operand in node.given)


def _terms(node: Node) -> Iterator[Value]:
    """What is added, through all inner sums that nothing else reads."""
    for operand in node.given:
        match operand:
            case Value(Node(Add()) as inner) if _is_sum(node) and has_one_use(operand):
                yield from _terms(inner)
            case _:
                yield operand


def _part(term: Value) -> _Part | None:
    """A term that is zero but for a stretch along one axis, and that nothing else reads."""
    match term:
        case Value(Node(Pad(before, after, PadMode.CONSTANT), [Value() as x, *fill])):
            if any(map(is_ranged, (*before, *after, *x.type.shape))):
                return None
            axes = [i for i, counts in enumerate(zip(before, after, strict=True)) if any(counts)]
            zeros = all(value is None or is_filled(value, 0) for value in fill)
            if len(axes) != 1 or not zeros or not has_one_use(term):
                return None
            (axis,) = axes
            return _Part(x, axis, before[axis], before[axis] + x.type.shape[axis])
    return None


def _runs(parts: Iterable[_Part]) -> Iterator[list[_Part]]:
    """Parts along one axis of which each begins where the one before it ends."""
    run: list[_Part] = []
    for part in sorted(parts, key=lambda part: (part.axis, part.start, part.end)):
        if run and (run[-1].axis, run[-1].end) != (part.axis, part.start):
            yield run
            run = []
        run.append(part)
    if run:
        yield run


def _emit(b: Builder, run: Sequence[_Part], whole: Value) -> Value:
    """The parts of a run side by side, with zeros up to the extent of the sum."""
    axis, rank = run[0].axis, whole.type.rank
    joined = b.emit(Concat(axis), *(part.x for part in run)) if len(run) > 1 else run[0].x
    before, after = [0] * rank, [0] * rank
    before[axis], after[axis] = run[0].start, whole.type.shape[axis] - run[-1].end
    if not any((*before, *after)):
        return joined
    return b.emit(Pad(tuple(before), tuple(after)), joined)


SUMS_OF_PADS = RewritePass("sums-of-pads", (join_padded_terms,))
