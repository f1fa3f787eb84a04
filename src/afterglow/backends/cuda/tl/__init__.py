"""A small typed vocabulary over the text of Triton's language, in which kernels are written.

Values carry the kernel that they belong to, so that operators and functions write code, and have
the vocabulary of the element-wise expressions that all code generators share.
"""

from afterglow.backends.cuda.tl.code import Code
from afterglow.backends.cuda.tl.pointer import Pointer
from afterglow.backends.cuda.tl.value import Value
from afterglow.backends.cuda.tl.vocabulary import TRITON
from afterglow.backends.pointwise.vocabulary import declare

declare(Value, TRITON)

__all__ = ["Code", "Pointer", "Value"]
