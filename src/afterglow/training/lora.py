"""Low-rank adaptation (arXiv 2106.09685): train small factors beside weights that stay.

Of a product with a weight W, x @ W, the adapted model computes x @ W + scale * (x @ A) @ B. A has
few columns and B few rows, so that there is little to train. Afterwards W + scale * A @ B takes the
place of W, and the model is as large and fast as before.
"""

from __future__ import annotations

from collections.abc import Mapping

from afterglow.graph import Builder, Constant, Function, Module, Node, Value
from afterglow.nn.init import generator, kaiming_uniform, zeros
from afterglow.ops.elementwise import Add, Mul, scalar
from afterglow.ops.linear import MatMul
from afterglow.support.errors import UsageError
from afterglow.support.lazy_dataclass import dataclass
from afterglow.training.parameters import matching
from afterglow.types import Array

A, B = ".lora_a", ".lora_b"
"""How the names of the factors end, after that of the weight."""


@dataclass(frozen=True)
class LoRA:
    """Which weights get low-rank factors that train.

    Args:
        weights: their names, as patterns with stars: matrices that a product reads as its second
            factor, such as those of `nn.Linear`.
        rank: columns of A and rows of B.
        alpha: the factor of what they add, times `rank`; by default `rank`, so that it is 1.
        seed: what the first values of A depend on; B begins with zeros.
    """

    weights: str | tuple[str, ...] = "*"
    rank: int = 8
    alpha: float | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        if isinstance(self.rank, bool) or not isinstance(self.rank, int) or self.rank < 1:
            raise UsageError(f"LoRA: rank must be a whole number above 0, got {self.rank!r}")
        texts = self._patterns
        if not isinstance(texts, tuple | list) or not all(isinstance(t, str) for t in texts):
            raise UsageError(
                f"LoRA: weights must be patterns of names, got {self.weights!r}",
                help='write ag.LoRA("*attn*", rank=8)',
            )

    @property
    def _patterns(self) -> tuple[str, ...]:
        return (self.weights,) if isinstance(self.weights, str) else self.weights

    @property
    def scale(self) -> float:
        """The factor of what A and B add."""
        return 1.0 if self.alpha is None else self.alpha / self.rank

    def adapt(self, source: Module) -> tuple[Module, dict[str, bool]]:
        """A copy of a module with factors, and the weights that have them.

        Of each weight it is said whether products read it transposed.
        """
        module = source.clone()
        products = _products(module.main)
        names = {*matching(products, self._patterns, "weight of a product")}
        adapted = {}
        for name, nodes in products.items():
            if name in names:
                op = nodes[0].op
                assert isinstance(op, MatMul)
                factors = self._factors(module, name, transposed=op.transpose_rhs)
                for node in nodes:
                    self._add_branch(module.main, node, *factors)
                adapted[name] = op.transpose_rhs
        return module, adapted

    def _factors(self, module: Module, name: str, *, transposed: bool) -> tuple[Value, Value]:
        """A and B of a weight, as constants of the module."""
        rows, columns = module.constants[name].type.shape
        inner, outer = (columns, rows) if transposed else (rows, columns)
        rng = generator(self.seed, name + A)
        first = kaiming_uniform(a=5**0.5)(rng, (self.rank, inner))
        return (
            module.constant(name + A, first.T.copy()),
            module.constant(name + B, zeros(rng, (self.rank, outer))),
        )

    def _add_branch(self, main: Function, node: Node, a: Value, b: Value) -> None:
        """Add to a product what the factors give."""
        x = node.operands[0]
        assert x is not None
        builder = Builder(main, node.after, origins=node.origins)
        narrow = builder.emit(MatMul(), x, a)
        if self.scale != 1:
            narrow = builder.emit(Mul(), narrow, scalar(builder, self.scale, narrow))
        whole = builder.emit_node(Add(), node.result, builder.emit(MatMul(), narrow, b))
        main.replace(node.result, whole.result)
        whole.set_operand(0, node.result)

    def merge(self, adapted: Mapping[str, bool], values: Mapping[str, Array]) -> dict[str, Array]:
        """Values of constants without factors: each is added to its weight."""
        merged = {name: v for name, v in values.items() if not name.endswith((A, B))}
        for name, transposed in adapted.items():
            added = self.scale * (values[name + A] @ values[name + B])
            merged[name] = merged[name] + (added.T if transposed else added)
        return merged


def _products(main: Function) -> dict[str, list[Node]]:
    """The products by matrices of floats that are constants, by the names of these.

    A matrix that some read transposed and others do not is left out.
    """
    found: dict[str, list[Node]] = {}
    for node in main.nodes:
        if not isinstance(node.op, MatMul) or node.op.transpose_lhs:
            continue
        weight = node.operands[1]
        if isinstance(weight, Constant) and weight.type.rank == 2 and weight.type.dtype.is_float:
            found.setdefault(weight.name, []).append(node)
    return {name: nodes for name, nodes in found.items() if len({n.op for n in nodes}) == 1}
