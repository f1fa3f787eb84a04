"""Element-wise ops as expressions of values in registers.

Kernels of element-wise ops are made of them, and so is what other kernels do to elements as they
read and write them. An op has one expression, in the file of its family; `compute` converts around
it, so that each result is rounded as the op's own `evaluate` rounds it.
"""

from afterglow.backends.pointwise import (
    activations,
    arithmetic,
    functions,
    logic,
    quantization,
)
from afterglow.backends.pointwise.table import Expression, compute, has_expression, supports

_FAMILIES = (activations, arithmetic, functions, logic, quantization)
"""The modules that fill the table when they are imported."""

__all__ = ["Expression", "compute", "has_expression", "supports"]
