"""The cost model: every estimate of time, in FLOPs that take as long on the target.

Kernels give counts (elements, bytes, steps of a tile); this module says what each of them costs, so
that the estimates of different kernels can be compared. Rates are ratios of times, the unit is a
FLOP of a product in registers. They are the same for all targets; where an estimate decides badly,
`tune` measures the plans instead.
"""

from __future__ import annotations

import math

from afterglow.backends.job import Job
from afterglow.instr import OpInstr
from afterglow.runtime.native.convention import CHUNKS_OF_THREAD
from afterglow.types.extent import is_ranged, larger_extent, largest

FLOPS_PER_BYTE = 4.0
"""FLOPs in the time in which a byte comes from memory."""

# Walks through tensors, for each element or byte: arithmetic, and memory as far as it is slower.

ELEMENTWISE_STEP = 8
"""One element-wise step on one element."""
REDUCED_ELEMENT = 8
"""An element that is summed up or compared."""
SEARCHED_ELEMENT = 12
"""An element of which the place counts as well, or of a running sum."""
NORMALIZED_ELEMENT = 20
"""An element of a normalization, all its walks together."""
GROUP_NORM_ELEMENT = 6.0
"""An element in one walk of a normalization over groups of channels."""
SOFTMAX_ELEMENT = 30
"""An element of a softmax, its exponential included."""
LRN_ELEMENT = 40
"""An element of a local response normalization, its power included."""
RANDOM_ELEMENT = 30
"""A random number."""
TOP_K_ELEMENT = 16
"""An element that is compared with the best so far."""
TREE_DESCENT = 100.0
"""Going down one decision tree."""
MOVED_BYTE = 2.0
"""A byte that is moved."""
COPIED_BYTE = 2.0
"""A byte of an operand that is copied with padding."""
PACKED_ELEMENT = 4.0
"""An element that is packed, or copied with padding, before a product."""
GATHERED_ELEMENT = 16.0
"""An element that is looked up by an index."""
UPDATED_ELEMENT = 16.0
"""An element that is put at an index."""
RESIZED_TAP = 4.0
"""A neighbour of a result that is resampled."""
INDEXED_TAP = 4.0
"""An element of a window of which the largest one's place is found."""
SAMPLED_POSITION = 16
"""A position that an image is sampled at, in elements of its result."""
BYTE_FLOP = 0.5
"""A multiplication or an addition of a product of bytes."""
BF16_FLOP = 0.5
"""The same of a product of bf16 by instructions for pairs of them."""
TILE_GAIN = 1 / 8
"""The cost of each of them where registers hold matrices, relative to that of vectors."""
LANE_REDUCTION = 8
"""Vectors that are loaded in the time in which the lanes of one are reduced."""

# Register tiles, in multiplications of whole vectors.

CONV_STEP = 1
"""A step along the depth of a convolution, besides its multiplications."""
CONV_TILE = 24
"""Beginning and ending a tile of a convolution."""
CONV_ADDRESS = 8
"""Finding the address of a pixel that is not a constant distance from its neighbour."""
RESULT_VECTOR = 2
"""Writing a vector of results of a convolution."""
FAR_RESULT_VECTOR = 16
"""What that costs more if the results go to memory beyond the caches, in pieces of rows."""
BYTE_RESULT_VECTOR = 8
"""Scaling, rounding and writing a vector of results of a product of bytes."""

# Factors by which code is slower.

NO_FREE_REGISTER = 1.08
"""Steps of a product that leave no register free."""
CONV_NO_FREE_REGISTER = 1.1
"""The same of a convolution, whose addresses take registers as well."""
TWO_HEIGHTS = 1.02
"""Code with tiles of two heights rather than one."""
TILE_CODE = 0.01
"""The part of a convolution's time that one more copy of the code of a tile costs."""
FAR_PANEL = 3 / 8
"""What reading a vector of 512 bits costs a tile besides its load, from the second cache."""
CACHE_COLLISION = 1.5
"""Steps whose rows push each other out of the first cache."""

# Fast algorithms.

WINOGRAD_INPUT = 400.0
"""Transforming a channel of a tile of x for 4 x 4 results."""
WINOGRAD_OUTPUT = 300.0
"""Transforming a channel of a tile of 4 x 4 results."""
WINOGRAD_WEIGHT = 16.0
"""An element of a weight that is transformed in a run."""
WINOGRAD_SLOPE = 4.0
"""A product of transformed tiles that becomes part of the gradient of a weight."""
STRASSEN_GAIN = 0.005
"""The estimated gain from which a ranged product goes by Strassen's algorithm."""
WINOGRAD_GAIN = 1.1
"""How much faster Winograd's algorithm must be by the estimate to be chosen."""
STRASSEN_SUM = 18.0
"""Making the left factors of Strassen's algorithm, for each element of lhs."""
FAR_STRASSEN_SUM = 26.0
"""The same, if the second cache does not hold the left factors."""
STRASSEN_RESULT = 14.0
"""Sums between the products of Strassen's algorithm, for each element of the result."""
FAR_STRASSEN_RESULT = 34.0
"""The same, if the result goes to memory, where it is written in small pieces."""
STRASSEN_WEIGHT = 8.0
"""Reading the additional memory of rhs, for each of its elements."""

# Threads. A plan serves any number of them, to the same bits.

MANY_THREADS = 16
"""Threads of a large machine."""
UNEVEN = 0.03
"""The part of its time that a plan may lose on one thread to have units enough for many."""
FLOPS_A_SECOND = 1e11
"""FLOPs in a second on one thread, about, where a time is known in seconds."""
HAND_OVER = 1e-7
"""Seconds that taking a chunk costs: counting up in a line of memory that others count in."""
BARRIER = 5e-7
"""Seconds from the end of a step's last chunk until others go on, for each doubling of threads."""

# Work that is worth sharing between threads, in FLOPs.

CHUNK = 1 << 16
"""Work below which a step is not shared: handing it out takes as long as some thousand FLOPs."""
CONV_UNIT = 5e5
"""Work that a unit of a convolution has at least, if there is enough."""
BYTE_UNIT = 1e6
"""The same of a product of bytes."""
GEMM_UNITS = 1 << 20
"""Work of a product below which its rows are not divided to make more units."""


def work_of(count: int, rate: float) -> float:
    """The cost of so many elements or bytes; of a ranged number, an expression like it."""
    return count * max(1, round(rate)) if is_ranged(count) else float(count * rate)


def unevenness(units: int) -> float:
    """The factor by which a step counts as slower, since many threads share its units unevenly.

    On average half of the threads wait for the last unit, whose part of the time is that of
    threads by units. One thread does not, so this counts for little of it.
    """
    return 1 + UNEVEN * MANY_THREADS / max(1, largest(units))


def waiting(waits: int) -> int:
    """What it costs that threads wait for each other so many times between a kernel's phases.

    Each of many threads loses the time of a barrier, and of taking its chunks. One thread does
    not, so this counts for as little as `unevenness` does.
    """
    seconds = BARRIER * math.log2(MANY_THREADS) + HAND_OVER * CHUNKS_OF_THREAD
    return waits * round(UNEVEN * MANY_THREADS * seconds * FLOPS_A_SECOND)


def memory_bound(flops: float, nbytes: float) -> float:
    """The cost of arithmetic and of memory that is read meanwhile: the longer of both."""
    return max(flops, FLOPS_PER_BYTE * nbytes)


def memory_bound_extent(flops: int, nbytes: int) -> int:
    """The same of whole numbers, each of which may be an extent."""
    return larger_extent(flops, nbytes * round(FLOPS_PER_BYTE))


def plain_cost(job: Job) -> float:
    """The cost of the anchor of a job by its definition, or of all steps if there is none."""
    steps = job.steps if job.anchor is None else (job.anchor,)
    touched = {buffer for step in steps for _, buffer in step.accesses()}
    used = [buffer for buffer in job.buffers if buffer in touched]
    flops = sum(2.0 * _work(step) for step in steps)
    return memory_bound(flops, sum(buffer.type.nbytes for buffer in used))


def surrounding_cost(job: Job) -> float:
    """What the element-wise steps around an anchor add to its cost: what else they read."""
    if job.anchor is None:
        return 0.0
    own = {*job.anchor.ins, *job.anchor.outs}
    extra = [buffer for buffer in job.buffers if buffer not in own]
    flops = sum(_work(step) for step in (*job.before, *job.after))
    return flops + FLOPS_PER_BYTE * sum(buffer.type.nbytes for buffer in extra)


def _work(step: OpInstr) -> float:
    operands = [None if buffer is None else buffer.type for buffer in step.ins]
    return float(step.op.work(step.outs[0].type, operands))
