"""Element-wise ops on the CPU: what the expressions that all code generators share are made of."""

from afterglow.backends.cpu.llvm.emitter import Value
from afterglow.backends.cpu.pointwise.vocabulary import LLVM
from afterglow.backends.pointwise import compute, has_expression, supports
from afterglow.backends.pointwise.vocabulary import declare

declare(Value, LLVM)

__all__ = ["compute", "has_expression", "supports"]
