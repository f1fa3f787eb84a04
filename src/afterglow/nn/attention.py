"""Attention, and the block that transformers are made of."""

from __future__ import annotations

import math

from afterglow.graph import Value
from afterglow.nn import init
from afterglow.nn.basic import GELU, Dropout, Linear, ReLU
from afterglow.nn.checks import check_counts, check_shares
from afterglow.nn.layer import Layer
from afterglow.nn.normalization import LayerNorm
from afterglow.nn.scope import AnyLayer, Scope
from afterglow.ops.attention import Attention
from afterglow.ops.attention_scores import emit_causal, emit_masked, emit_scores
from afterglow.ops.elementwise import Add
from afterglow.ops.linear import MatMul
from afterglow.ops.movement import Reshape, Transpose, slice_axis
from afterglow.ops.softmax import Softmax
from afterglow.support.errors import CompileError, UsageError
from afterglow.support.lazy_dataclass import dataclass

ACTIVATIONS: dict[str, Layer] = {"relu": ReLU(), "gelu": GELU()}


@dataclass(frozen=True, repr=False)
class MultiHeadAttention(Layer):
    """Self-attention of [batch, tokens, features]; causal: no token sees a later one."""

    embed_dim: int
    num_heads: int
    dropout: float = 0.0
    bias: bool = True
    causal: bool = False

    def __post_init__(self) -> None:
        check_counts(self, "embed_dim", "num_heads")
        check_shares(self, "dropout")

    def build(self, scope: Scope, x: Value) -> Value:
        """One product for queries, keys and values; each head on its own; one product more."""
        self._check(scope, x)
        projected = self._projected(scope, x)
        heads = [self._head(scope, projected, part) for part in range(3)]
        mixed = scope.emit(Transpose((0, 2, 1, 3)), self._mixed(scope, *heads))
        joined = scope.emit(Reshape(x.type.shape), mixed)
        last = Linear(self.embed_dim, self.embed_dim, self.bias, bias_init=init.zeros)
        return scope.layer("out_proj", last, joined)

    def _check(self, scope: Scope, x: Value) -> None:
        if self.embed_dim % self.num_heads:
            raise CompileError(
                f"{self.embed_dim} features do not divide into {self.num_heads} heads"
            )
        scope.expect_rank(x, "batch, tokens, features")
        fix = f"make embed_dim {x.type.shape[-1]}, or change the layer before it"
        scope.expect(x, -1, self.embed_dim, "features", fix)

    def _projected(self, scope: Scope, x: Value) -> Value:
        rows = 3 * self.embed_dim
        weight = scope.parameter("in_proj_weight", (rows, self.embed_dim), init.xavier_uniform())
        y = scope.emit(MatMul(transpose_rhs=True), x, weight)
        if not self.bias:
            return y
        return scope.emit(Add(), y, scope.parameter("in_proj_bias", (rows,), init.zeros))

    def _head(self, scope: Scope, projected: Value, part: int) -> Value:
        """Queries, keys or values as [batch, heads, tokens, features of a head]."""
        width = self.embed_dim
        own = scope.emit(slice_axis(projected.type, 2, part * width, width), projected)
        shape = (*projected.type.shape[:2], self.num_heads, width // self.num_heads)
        return scope.emit(Transpose((0, 2, 1, 3)), scope.emit(Reshape(shape), own))

    def _mixed(self, scope: Scope, q: Value, k: Value, v: Value) -> Value:
        """One op; with dropout, which falls on the weights, its parts."""
        scale = 1 / math.sqrt(self.embed_dim // self.num_heads)
        if not self.dropout:
            return scope.emit(Attention(scale, self.causal), q, k, v)
        b, tokens = scope.builder, q.type.shape[2]
        scores = emit_scores(b, q, k, scale)
        if self.causal:
            scores = emit_masked(b, scores, emit_causal(b, tokens, tokens, 0))
        weights = Dropout(self.dropout).build(scope, scope.emit(Softmax(), scores))
        return scope.emit(MatMul(), weights, v)


@dataclass(frozen=True, repr=False)
class TransformerBlock(Layer):
    """Self-attention and a feed-forward network, each with a residual connection and layer norm.

    Names and defaults are those of PyTorch's `TransformerEncoderLayer`; with `causal` it is the
    block of a language model.
    """

    d_model: int
    nhead: int
    dim_feedforward: int = 2048
    dropout: float = 0.1
    activation: str | AnyLayer = "relu"
    norm_first: bool = False
    causal: bool = False

    def __post_init__(self) -> None:
        check_counts(self, "d_model", "nhead", "dim_feedforward")
        check_shares(self, "dropout")

    def build(self, scope: Scope, x: Value) -> Value:
        """Two residual branches."""
        attend = MultiHeadAttention(self.d_model, self.nhead, self.dropout, causal=self.causal)

        def attention(y: Value) -> Value:
            return self._dropped(scope, scope.layer("self_attn", attend, y))

        def feed_forward(y: Value) -> Value:
            inner = scope.layer("linear1", Linear(self.d_model, self.dim_feedforward), y)
            active = self._dropped(scope, scope.layer("activation", self._activation, inner))
            last = Linear(self.dim_feedforward, self.d_model)
            return self._dropped(scope, scope.layer("linear2", last, active))

        for name, branch in (("norm1", attention), ("norm2", feed_forward)):
            norm = LayerNorm(self.d_model)
            if self.norm_first:
                x = scope.emit(Add(), x, branch(scope.layer(name, norm, x)))
            else:
                x = scope.layer(name, norm, scope.emit(Add(), x, branch(x)))
        return x

    def _dropped(self, scope: Scope, x: Value) -> Value:
        return Dropout(self.dropout).build(scope, x) if self.dropout else x

    @property
    def _activation(self) -> AnyLayer:
        if not isinstance(self.activation, str):
            return self.activation
        if self.activation not in ACTIVATIONS:
            raise UsageError(
                f"no activation {self.activation!r}",
                help=f"there are {', '.join(map(repr, ACTIVATIONS))}, or give a layer",
            )
        return ACTIVATIONS[self.activation]
