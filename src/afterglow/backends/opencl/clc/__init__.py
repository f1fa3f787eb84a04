"""A small typed vocabulary over the text of OpenCL C, in which kernels are written.

Values carry the kernel that they belong to, so that operators and functions write code, and have
the vocabulary of the element-wise expressions that all code generators share.
"""

from afterglow.backends.opencl.clc.code import Code
from afterglow.backends.opencl.clc.pointer import Pointer
from afterglow.backends.opencl.clc.value import Value
from afterglow.backends.opencl.clc.vocabulary import CLC
from afterglow.backends.pointwise.vocabulary import declare

declare(Value, CLC)

__all__ = ["Code", "Pointer", "Value"]
