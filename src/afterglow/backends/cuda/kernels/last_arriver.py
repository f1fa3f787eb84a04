"""Programs that share the elements of lines: the one that ends last puts together what all found.

Which one that is differs from run to run. The order in which it combines does not, so that runs
give equal bits.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from afterglow.backends.cuda.kernels.kernel import Kernel
from afterglow.backends.cuda.tl import Pointer, Value
from afterglow.types.dtype import i32

FROM_L2 = ', cache_modifier=".cg"'
"""What other multiprocessors wrote is not in the cache of this one."""


@contextmanager
def last_program(kernel: Kernel, group: Value, groups: int, sharing: int) -> Iterator[None]:
    """Statements for the last to come here of the `sharing` programs of a group.

    What all of them stored before can be loaded in them, from the second-level cache.
    """
    code = kernel.code
    counters = kernel.counters(groups)
    code.perform("tl.debug_barrier()")
    text = f'tl.atomic_add({counters.name} + {group.text}, 1, sem="acq_rel")'
    before = code.define(text, i32)
    with code.branch(before.combined("==", sharing - 1)):
        code.perform(f"tl.store({counters.name} + {group.text}, 0)")
        yield


def load_shared(memory: Pointer, place: Value) -> Value:
    """What other programs stored."""
    return memory.load(place, options=FROM_L2)
