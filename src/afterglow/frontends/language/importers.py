"""The ops of language models, as our own."""

from __future__ import annotations

import numpy as np

from afterglow.frontends.definition.context import NodeContext
from afterglow.frontends.language.dialects import language_op
from afterglow.graph import Value
from afterglow.ops.activation import Gelu, Swish
from afterglow.ops.cached_attention import CachedAttention, WriteRows
from afterglow.ops.conversion import Cast
from afterglow.ops.elementwise import Add, Mul, scalar
from afterglow.ops.functions import Tanh
from afterglow.ops.indexing import Gather
from afterglow.ops.linear import MatMul
from afterglow.ops.movement import Reshape
from afterglow.ops.normalization import RMSNorm
from afterglow.ops.rotary import Rotary
from afterglow.ops.stored import Activations, StoredGather, StoredMatMul
from afterglow.types import TensorType
from afterglow.types.dtype import f32


@language_op("embed")
def embed(n: NodeContext) -> Value:
    """Rows of a table of floats, or of integers in blocks, in f32."""
    if len(n) == 2:
        rows = n.emit(Gather(0), n[1], n[0])
        return rows if rows.type.dtype is f32 else n.emit(Cast(f32), rows)
    op = StoredGather(n.integer("block"), n.integer("bits"))
    return n.emit(op, n[0], n[1], n[2], None, n.get(3))


@language_op("linear")
def linear(n: NodeContext) -> Value:
    """Rows times the transpose of a matrix of floats, or of integers in blocks.

    As the engines of such files do, the latter multiply rows that are rounded to 8 bits, in blocks
    that are as long as those of the matrix's format.
    """
    if len(n) == 2:
        return n.emit(MatMul(transpose_rhs=True), n[0], n[1])
    block, bits, row_block = (n.integer(name) for name in ("block", "bits", "row_block"))
    op = StoredMatMul(block, bits, Activations.INT8, row_block)
    return n.emit(op, n[0], n[1], n[2], None, n.get(3))


@language_op("rms_norm")
def rms_norm(n: NodeContext) -> Value:
    """Rows, or heads, brought to length 1 and scaled."""
    return n.emit(RMSNorm(-1, n.number("epsilon")), n[0], n[1])


@language_op("shape_rows")
def shape_rows(n: NodeContext) -> Value:
    """Each row in another shape."""
    return n.emit(Reshape((n[0].type.shape[0], *n.integers("shape"))), n[0])


@language_op("look_up", "take")
def take(n: NodeContext) -> Value:
    """Rows by number."""
    return n.emit(Gather(0), n[0], n[1])


@language_op("rotary")
def rotary(n: NodeContext) -> Value:
    """Heads, turned by the angles of their positions."""
    return n.emit(Rotary(bool(n.attribute("interleaved"))), n[0], n[1], n[2])


@language_op("cache")
def cache(n: NodeContext) -> Value:
    """State with new rows, each at its sequence and position, that is kept for later calls."""
    rows, positions, sequences = n[0], n[1], n[2]
    type = TensorType(f32, n.integers("shape"))
    n.check_size(type)
    state = n.graph.session.module.state(n.proto.name, type)
    written = n.emit(WriteRows(), state, rows, positions, sequences)
    n.graph.function.update(state, written)
    return written


@language_op("attention")
def attention(n: NodeContext) -> Value:
    """Each query with the keys and values of its sequence, up to its position."""
    op = CachedAttention(n.number("scale"), n.integer("window"), n.number("softcap"))
    return n.emit(op, n[0], n[1], n[2], n[3], n[4])


@language_op("silu")
def silu(n: NodeContext) -> Value:
    """x sigmoid(x)."""
    return n.emit(Swish(), n[0])


@language_op("gelu")
def gelu(n: NodeContext) -> Value:
    """The approximation of GELU by tanh."""
    return n.emit(Gelu(approximate=True), n[0])


@language_op("add")
def add(n: NodeContext) -> Value:
    """The sum."""
    return n.emit(Add(), n[0], n[1])


@language_op("mul")
def mul(n: NodeContext) -> Value:
    """The product."""
    return n.emit(Mul(), n[0], n[1])


@language_op("scale")
def scale(n: NodeContext) -> Value:
    """A multiple."""
    return n.emit(Mul(), n[0], scalar(n.builder, n.number("factor"), n[0]))


@language_op("softcap")
def softcap(n: NodeContext) -> Value:
    """limit tanh(x / limit): numbers within a limit."""
    limit = n.number("limit")
    part = n.emit(Mul(), n[0], n.constant(np.array(1 / limit, np.float32)))
    return n.emit(Mul(), n.emit(Tanh(), part), n.constant(np.array(limit, np.float32)))


@language_op("identity")
def identity(n: NodeContext) -> Value:
    """What it is given."""
    return n[0]
