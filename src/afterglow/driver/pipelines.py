"""The order of passes, with a reason on each line."""

from __future__ import annotations

from afterglow.instr import Program
from afterglow.lowering import HasKernel, LowerOps, Schedule
from afterglow.lowering.dequantize_per_reader import DequantizePerReader
from afterglow.memory import (
    AlternativePlans,
    Memories,
    PlanStep,
    remove_copies,
    update_in_place,
)
from afterglow.memory.passes import (
    AddHalos,
    AliasOutputs,
    DonateInputs,
    DropDeadStores,
    FitWeights,
    FormStacks,
    PlanKernels,
    PlanMemories,
    PlanMemory,
    PutSideBySide,
    ReduceWorkspace,
    RemoveCopies,
    ShareBuffers,
    UpdateInPlace,
)
from afterglow.passes import Pass, Pipeline, ProgramPipeline
from afterglow.quantization.convert import Convert
from afterglow.quantization.convert_floats import ConvertFloats
from afterglow.quantization.dynamic import QuantizeProducts
from afterglow.quantization.interface import QuantizeInterface
from afterglow.quantization.rounding import Rounding
from afterglow.quantization.scale_inputs import ScaleInputs
from afterglow.quantization.weight_only import FORMATS, QuantizeWeights
from afterglow.transforms.arithmetic import ARITHMETIC
from afterglow.transforms.average_integers import AVERAGE_INTEGERS
from afterglow.transforms.bodies import SIMPLIFY_BODIES
from afterglow.transforms.byte_tables import ALL_BYTE_TABLES, BYTE_TABLES
from afterglow.transforms.casts import SIMPLIFY_CASTS
from afterglow.transforms.clips import RAISE_CLIPS, SIMPLIFY_CLIPS
from afterglow.transforms.concats import SIMPLIFY_CONCATS
from afterglow.transforms.drop_dead import DropDead
from afterglow.transforms.drop_dropouts import DROP_DROPOUTS
from afterglow.transforms.expand_einsum import EXPAND_EINSUM
from afterglow.transforms.expand_ops import EXPAND_OPS
from afterglow.transforms.fold_affine import FOLD_AFFINE
from afterglow.transforms.fold_constants import FoldConstants
from afterglow.transforms.fold_leading_parts import FOLD_LEADING_PARTS
from afterglow.transforms.inline_branches import INLINE_BRANCHES
from afterglow.transforms.integer_islands import INTEGER_ISLANDS
from afterglow.transforms.integer_only import INTEGER_ONLY
from afterglow.transforms.logic import SIMPLIFY_LOGIC
from afterglow.transforms.merge_equal import MergeEqualConstants, MergeEqualNodes
from afterglow.transforms.merge_matmuls import MergeMatMuls
from afterglow.transforms.narrow_weights import NarrowWeights
from afterglow.transforms.padding_only_taps import DROP_PADDING_ONLY_TAPS
from afterglow.transforms.pads import FOLD_PADS
from afterglow.transforms.recognise_activations import RECOGNISE_ACTIVATIONS
from afterglow.transforms.recognise_attention import RECOGNISE_ATTENTION
from afterglow.transforms.recognise_group_norms import RECOGNISE_GROUP_NORMS
from afterglow.transforms.recognise_integers import RECOGNISE_INTEGERS
from afterglow.transforms.recognise_norms import RECOGNISE_NORMS
from afterglow.transforms.recognise_quantized import RECOGNISE_QUANTIZED
from afterglow.transforms.recognise_rectifiers import RECOGNISE_RECTIFIERS
from afterglow.transforms.recognise_shuffles import RECOGNISE_SHUFFLES
from afterglow.transforms.recognise_softmax import RECOGNISE_SOFTMAX
from afterglow.transforms.recognise_stored import RECOGNISE_STORED
from afterglow.transforms.reshapes import SIMPLIFY_RESHAPES
from afterglow.transforms.resize_integers import RESIZE_INTEGERS
from afterglow.transforms.sink_transposes import SinkTransposes
from afterglow.transforms.slices import SIMPLIFY_SLICES
from afterglow.transforms.sparse_windows import SPLIT_SPARSE_WINDOWS
from afterglow.transforms.store_fakes import STORE_FAKES
from afterglow.transforms.stored_activations import set_activations
from afterglow.transforms.stored_weights import MOVE_STORED_WEIGHTS
from afterglow.transforms.sums_of_pads import SUMS_OF_PADS
from afterglow.transforms.wide_tables import WIDE_TABLES
from afterglow.types import DType


def _recognising() -> tuple[Pass, ...]:
    """From what exporters write to the ops that they mean, channels last."""
    return (
        RAISE_CLIPS,
        RECOGNISE_ACTIVATIONS,  # before fold-affine, which takes their factors away
        RECOGNISE_RECTIFIERS,
        RECOGNISE_SOFTMAX,  # before attention, which contains it
        RECOGNISE_NORMS,
        RECOGNISE_GROUP_NORMS,
        EXPAND_EINSUM,  # attention may be spelled with it
        RECOGNISE_ATTENTION,
        SinkTransposes(),  # provides channels-last
        RECOGNISE_NORMS,  # again: channels that are last by now
        RECOGNISE_GROUP_NORMS,
    )


def optimising_pipeline() -> Pipeline:
    """Optimisations of the graph as imported, which serve every backend."""
    return Pipeline(
        "optimise",
        (
            EXPAND_OPS,  # first: ops of users' own, and index notation, consist of others
            DROP_DROPOUTS,  # they would hide every pattern they are part of
            STORE_FAKES,  # before constants are folded, so that weights become integers
            FoldConstants(),  # early: later rules match on constants
            FOLD_LEADING_PARTS,  # the same for ranged extents
            INLINE_BRANCHES,  # an If whose condition is known by now
            SIMPLIFY_BODIES,  # constants move inside, where later rules see them
            MergeEqualConstants(),  # exporters repeat themselves
            MergeEqualNodes(),
            SIMPLIFY_CASTS,
            SIMPLIFY_RESHAPES,
            SIMPLIFY_SLICES,
            SUMS_OF_PADS,  # gradients of what was sliced
            SIMPLIFY_CONCATS,
            ARITHMETIC,  # constants to the right, before patterns are matched
            SIMPLIFY_LOGIC,
            *_recognising(),
            MOVE_STORED_WEIGHTS,  # transposes that sinking left on quantized weights
            FoldConstants(),  # transposed weights
            RECOGNISE_SHUFFLES,  # in their channels-last form
            FOLD_PADS,
            DROP_PADDING_ONLY_TAPS,  # with all padding in the convolutions
            SPLIT_SPARSE_WINDOWS,  # what still sees little but padding
            INTEGER_ISLANDS,
            RECOGNISE_QUANTIZED,  # while quantized weights are as stored, and their pads folded
            BYTE_TABLES,  # of functions that are still between bytes
            RECOGNISE_INTEGERS,
            RECOGNISE_STORED,  # weights of products that are left in floats
            SIMPLIFY_CLIPS,
            FOLD_AFFINE,  # batch norms and biases stand next to their convolution by now
            ARITHMETIC,
            MergeMatMuls(),  # after attention, whose patterns it would hide
            SIMPLIFY_RESHAPES,
            SIMPLIFY_SLICES,
            SIMPLIFY_CONCATS,
            MergeEqualConstants(),
            MergeEqualNodes(),
            DropDead(),
        ),
    )


def forward_pipeline() -> Pipeline:
    """Optimisations of a function that is differentiated next: ops with good gradients, no copies.

    Nothing is done that only pays while weights are constants.
    """
    return Pipeline(
        "forward",
        (
            FoldConstants(),
            INLINE_BRANCHES,  # an If whose condition is known by now
            SIMPLIFY_BODIES,
            MergeEqualConstants(),
            MergeEqualNodes(),
            SIMPLIFY_CASTS,
            SIMPLIFY_RESHAPES,
            SIMPLIFY_SLICES,
            SIMPLIFY_CONCATS,
            ARITHMETIC,
            *_recognising(),  # whose own gradients apply then, and are channels-last, too
            FOLD_PADS,
            SIMPLIFY_RESHAPES,
            MergeEqualNodes(),
            DropDead(),
        ),
    )


def quantizing_pipeline(convert: Convert) -> Pipeline:
    """From an optimised function of floats to one of integers, where they were observed."""
    integers = ALL_BYTE_TABLES, INTEGER_ONLY, WIDE_TABLES  # the last, of what no other can
    return Pipeline(
        "quantize",
        (
            convert,
            RESIZE_INTEGERS,  # before what it reads is moved away
            INTEGER_ISLANDS,  # before products are recognised, which read what moves leave
            RECOGNISE_QUANTIZED,
            *(integers if convert.config.integer_only else (BYTE_TABLES,)),
            AVERAGE_INTEGERS,  # so that all machines have the same means
            SIMPLIFY_CLIPS,
            ARITHMETIC,
            MergeEqualConstants(),  # scales and weights that several readers have
            MergeEqualNodes(),
            *((QuantizeInterface(),) if convert.config.quantized_io else ()),
            DropDead(),
        ),
    )


def dynamic_pipeline(rounding: Rounding | None = None) -> Pipeline:
    """Products of an optimised function in integers, whose scales are found as they run."""
    products = QuantizeProducts(rounding=rounding)
    return Pipeline("quantize", (products, MergeEqualNodes(), DropDead()))


def mixing_pipeline(convert: ConvertFloats) -> Pipeline:
    """From an optimised function of f32 to one that has 16-bit floats where it may."""
    return Pipeline(
        "mix precision",
        (
            convert,
            SIMPLIFY_CASTS,  # those that cancel
            MergeEqualConstants(),
            MergeEqualNodes(),  # casts of what several nodes read
            DropDead(),
        ),
    )


def converting_pipeline(convert: Convert) -> Pipeline:
    """The same for engines that make integers of products of dequantized values themselves."""
    return Pipeline("convert", (convert, MergeEqualConstants(), DropDead()))


def narrowing_pipeline(
    stored: DType | None, every: bool, rounding: Rounding | None = None
) -> Pipeline:
    """Weights stored in fewer bits, if a type is given; after all that computes with them."""
    if stored is None:
        return Pipeline("narrow", ())
    format = FORMATS.get(stored)
    if format is None:
        return Pipeline("narrow", (NarrowWeights(stored, every=every),))
    if rounding is None:
        return Pipeline("narrow", (QuantizeWeights(format), DropDead()))
    scale = ScaleInputs(format.nearest, rounding)
    store = QuantizeWeights(format, rounding=rounding, divided=scale.divided)
    return Pipeline("narrow", (scale, store, DropDead()))


def activations_pipeline(activations: str | None) -> Pipeline:
    """What products with stored matrices multiply, if the options say so."""
    passes = () if activations is None else (set_activations(activations),)
    return Pipeline("activations", passes)


def lowering_pipeline(has_kernel: HasKernel, *, optimize: bool) -> Pipeline:
    """From ops to those that the backend has kernels for, in the order in which they run."""
    tidy = (
        FoldConstants(dequantize=True),  # what lowering computes of constants
        SIMPLIFY_CASTS,
        SIMPLIFY_RESHAPES,
        ARITHMETIC,
        MergeEqualConstants(),  # lowering repeats itself
        MergeEqualNodes(),
        DequantizePerReader(),  # after merging, which would undo it
    )
    return Pipeline(
        "lower",
        (
            LowerOps(has_kernel),
            *(tidy if optimize else ()),
            DropDead(),  # what lowering left over
            scheduling(optimize=optimize),  # last: nothing moves afterwards
        ),
    )


def scheduling(*, optimize: bool) -> Schedule:
    """The pass that orders nodes, which knows what becomes of copies later."""
    return Schedule(_in_place) if optimize else Schedule()


def _in_place(program: Program) -> None:
    """What decides where values lie, of all that is done to a program later."""
    remove_copies(program)
    update_in_place(program)


def tidying_pipeline(plan: PlanStep, *, optimize: bool) -> ProgramPipeline:
    """From selected instructions to fewer of them, and fewer buffers."""
    passes = (
        RemoveCopies(),
        DropDeadStores(),
        AddHalos(plan),  # before stacks, which then write inside
        FormStacks(plan),  # after copies: what is written in place can be stacked
        UpdateInPlace(),  # after stacks, which write several buffers at once
    )
    return ProgramPipeline("tidy", passes if optimize else ())


def placing_pipeline(
    plan: PlanStep,
    alternatives: AlternativePlans,
    *,
    optimize: bool,
    donate: bool,
    side_by_side: bool = False,
    memories: Memories | None = None,
    most_weights: float | None = None,
) -> ProgramPipeline:
    """From tidy instructions to a program in which everything has its address."""
    sharing = (
        *((DonateInputs(),) if donate else ()),  # before buffers may lie there
        ShareBuffers(),  # after stacks: a stack's operands die together
    )
    at_the_peak = (
        AliasOutputs(),  # after sharing: what is live at the peak is known now
        ReduceWorkspace(alternatives),  # it changes plans only where the peak is
        *((PutSideBySide(),) if side_by_side else ()),  # last: it keeps the peak as it is by now
    )
    return ProgramPipeline(
        "place",
        (
            PlanKernels(plan),  # first: workspace is memory like any other
            *(() if most_weights is None else (FitWeights(alternatives, most_weights),)),
            *(sharing if optimize else ()),
            *(at_the_peak if optimize and memories is None else ()),
            PlanMemory() if memories is None else PlanMemories(memories),
        ),
    )


def placing_part_pipeline(plan: PlanStep, *, optimize: bool) -> ProgramPipeline:
    """The same, quickly, for a part of a model: what it reads and gives is left alone."""
    return ProgramPipeline(
        "place part",
        (
            PlanKernels(plan),
            *((ShareBuffers(),) if optimize else ()),
            PlanMemory(search_steps=0),
        ),
    )


def replacing_pipeline(plan: PlanStep) -> ProgramPipeline:
    """Other kernels, and other addresses, for a program that is planned already."""
    return ProgramPipeline("replace", (PlanKernels(plan), PlanMemory()))
