"""Rows, selected by indices, of a stored matrix, taken from the words that products read."""

from __future__ import annotations

from afterglow.backends.cuda.kernels.kernel import Kernel, KernelSource
from afterglow.backends.cuda.kernels.packed_matrix import WORDS, PackedMatrix, PackedReader
from afterglow.backends.cuda.kernels.table import ANCHORS
from afterglow.backends.cuda.target import CudaTarget
from afterglow.backends.cuda.tl import Value
from afterglow.backends.items.around import read, write_result
from afterglow.backends.items.gather import accepts_index, in_range
from afterglow.backends.items.movement import begin
from afterglow.backends.job import Job
from afterglow.backends.pointwise.vocabulary import convert
from afterglow.instr import OpInstr
from afterglow.ops.stored import StoredGather
from afterglow.types.dtype import f32


def _accepts(step: OpInstr, target: CudaTarget) -> bool:
    return PackedMatrix.of(step).is_known and accepts_index(step, 0)


@ANCHORS.declare(StoredGather, accepts=_accepts)
def write_stored_gather(job: Job, target: CudaTarget) -> KernelSource:
    """An item for each number."""
    kernel = Kernel(job, target)
    step, matrix = kernel.step, PackedMatrix.of(kernel.step)
    *places, place = begin(kernel, step)
    row = in_range(kernel, "indices", read(kernel, step.operand(0), places))
    write_result(kernel, _real(PackedReader(kernel, matrix), row, place), [*places, place])
    return kernel.finish()


def _real(reader: PackedReader, row: Value, place: Value) -> Value:
    """The real at a place of a row."""
    matrix, code = reader.matrix, reader.code
    inside = code.named(place.combined("%", matrix.chunk))
    word = place.combined("/", matrix.chunk) * WORDS + inside.combined("%", WORDS)
    words = reader.words().load(code.named(row * matrix.pitch + word))
    number = reader.number_at(words, inside.combined("/", WORDS), reader.zero(row, place))
    real = convert(number, f32) * reader.scale(row, place)
    minimum = reader.minimum(row, place)
    return real if minimum is None else real + minimum
