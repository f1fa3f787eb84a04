"""Ops in index notation, as Tensor Comprehensions had it: docs/ops-of-your-own.md."""

from afterglow.ops.comprehension.comprehension import Comprehension, comprehension

__all__ = ["Comprehension", "comprehension"]
