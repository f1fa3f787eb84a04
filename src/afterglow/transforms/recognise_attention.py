"""Recognise attention that exporters write as product, mask, softmax, product."""

from __future__ import annotations

from dataclasses import replace

from afterglow.graph import Builder, Node, Value
from afterglow.ops.attention import Attention
from afterglow.ops.elementwise import Add, IsNaN, Where
from afterglow.ops.linear import MatMul
from afterglow.ops.movement import Reshape
from afterglow.ops.softmax import Softmax
from afterglow.passes import RewritePass, rewrite
from afterglow.support.lazy_dataclass import dataclass
from afterglow.transforms.matching.attention import (
    Mask,
    Matrices,
    Scores,
    Shape,
    hides_rows,
    matrices,
    scores,
    ungrouped,
)
from afterglow.transforms.matching.patterns import maker, scalar_of, serves_only
from afterglow.types.extent import largest

LARGEST_SCALE = 1e30
"""Attention with a larger scale is not recognised: it may overflow where the scores do not."""


@dataclass(frozen=True)
class _Plan:
    """The operands of attention, read but not yet emitted; `lead` is batch and heads."""

    q: Matrices
    k: Matrices
    v: Matrices
    lead: Shape
    scale: float
    masks: tuple[Mask, ...]
    causal: bool


@rewrite(MatMul)
def gather_attention(node: Node, b: Builder) -> Value | None:
    """softmax(scale q kᵀ + mask) v  ->  attention(q, k, v, mask).

    Leading axes other than batch and heads are reshaped to these two, k and v that were repeated
    for groups of heads are taken as they were before, and a mask that is known to hide what comes
    later is not an operand.
    """
    softmax = _softmax(node.given[0])
    if softmax is None or not isinstance(node.op, MatMul) or node.op.transpose_lhs:
        return None
    found = scores(softmax.given[0])
    if found is None:
        return None
    leaves = [*found.product.given, node.given[1], *(mask.value for mask in found.masks)]
    if not serves_only(node, leaves):
        return None
    plan = _plan(node, found)
    return None if plan is None else _emit(b, plan, node)


def _softmax(weights: Value) -> Node | None:
    """The softmax along the last axis that made the weights, a guard against NaN left out.

    They may have other leading axes by now.
    """
    reshape = maker(weights, Reshape)
    if reshape is not None and reshape.given[0].type.shape[-2:] == weights.type.shape[-2:]:
        weights = reshape.given[0]
    guard = maker(weights, Where)
    if guard is not None:
        condition, then, other = guard.given
        nan = maker(condition, IsNaN)
        if nan is None or nan.given[0] is not other or scalar_of(then) != 0:
            return None
        weights = other
    node = maker(weights, Softmax)
    if node is None or not isinstance(node.op, Softmax):
        return None
    rank = node.result.type.rank
    return node if node.op.axis % rank == rank - 1 and rank >= 2 else None


def _plan(node: Node, found: Scores) -> _Plan | None:
    first = found.product.op
    assert isinstance(first, MatMul)
    q = matrices(found.product.given[0], swapped=first.transpose_lhs)
    k = matrices(found.product.given[1], swapped=not first.transpose_rhs)
    v = _values(node)
    lead = _common_lead(found, node.given[0])
    if lead is None or v is None or q.lead != found.product.result.type.shape[:-2]:
        return None
    queries, width = q.extents
    if largest(queries) < width and (q.moves or k.moves or v.moves):
        return None  # to turn the keys costs more than the scores of a few queries
    whole = found.product.result.type.shape[:-2], node.given[0].type.shape[:-2]
    sides = _shared(k, v, whole, lead)
    if sides is None:
        return None
    causal = [mask.is_causal(queries, k.extents[0]) for mask in found.masks]
    masks = tuple(m for m, known in zip(found.masks, causal, strict=True) if not known)
    scale = found.factor * q.factor * k.factor
    if not abs(scale) < LARGEST_SCALE or any(map(hides_rows, found.masks)):  # nor if it is NaN
        return None
    return _Plan(q, *sides, lead, scale, masks, any(causal))


def _values(node: Node) -> Matrices | None:
    """The matrices that the weights multiply; None if they have to be turned and scaled."""
    assert isinstance(node.op, MatMul)
    value = node.given[1]
    if not node.op.transpose_rhs:
        return Matrices(value, tuple(range(value.type.rank)), value.type.shape[:-2], 1.0)
    found = matrices(value, swapped=True)
    return found if found.factor == 1 else None


def _common_lead(found: Scores, weights: Value) -> Shape | None:
    """Batch and heads: two leading axes under which every mask can be written."""
    leads = [*found.leads, weights.type.shape[:-2]]
    pairs = [lead for lead in leads if len(lead) == 2]
    shorter: list[Shape] = [(*lead, *(1, 1)[len(lead) :]) for lead in leads if len(lead) < 2]
    for lead in pairs + shorter:
        if 0 not in lead and all(mask.shape_under(lead) is not None for mask in found.masks):
            return lead
    return None


def _shared(
    k: Matrices, v: Matrices, whole: tuple[Shape, Shape], lead: Shape
) -> tuple[Matrices, Matrices] | None:
    """Keys and values under their own batch and heads, fewer if groups of queries share them.

    `whole` are the leading axes of the two products, if each query has keys and values of its own.
    """
    sides = ungrouped(k, lead[1]), ungrouped(v, lead[1])
    if sides[0] is not None and sides[1] is not None:
        same = sides[0].lead == sides[1].lead and sides[0].lead[0] == lead[0]
        return (sides[0], sides[1]) if same else None
    if (k.lead, v.lead) == whole:
        return replace(k, lead=lead), replace(v, lead=lead)
    one_head = (lead[0], 1)
    return (k, v) if k.lead == v.lead == one_head else None


def _emit(b: Builder, plan: _Plan, node: Node) -> Value:
    dtype = node.result.type.dtype
    q = plan.q.emit(b, plan.lead, dtype)
    k = plan.k.emit(b, plan.k.lead, dtype)
    v = plan.v.emit(b, plan.v.lead, dtype)
    mask = None
    for term in plan.masks:
        value = term.emit(b, plan.lead, dtype)
        mask = value if mask is None else b.emit(Add(), mask, value)
    result = b.emit(Attention(plan.scale, plan.causal), q, k, v, mask)
    shape = node.result.type.shape
    return result if result.type.shape == shape else b.emit(Reshape(shape), result)


RECOGNISE_ATTENTION = RewritePass("recognise-attention", (gather_attention,))
