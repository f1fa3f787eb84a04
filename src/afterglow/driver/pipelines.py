"""The order of passes, with a reason on each line."""

from __future__ import annotations

from afterglow.lowering import LowerOps, Schedule
from afterglow.lowering.lower_ops import Keeps
from afterglow.passes import Pipeline
from afterglow.transforms.drop_dead import DropDead
from afterglow.transforms.fold_constants import FoldConstants
from afterglow.transforms.merge_equal import MergeEqualConstants, MergeEqualNodes


def optimising_pipeline() -> Pipeline:
    """Optimisations of the graph as imported."""
    return Pipeline(
        "optimise",
        (
            FoldConstants(),  # first: later rules match on constants
            MergeEqualConstants(),  # exporters repeat themselves
            MergeEqualNodes(),
            DropDead(),
        ),
    )


def lowering_pipeline(keeps: Keeps, *, optimize: bool) -> Pipeline:
    """From ops to those that the backend keeps, in the order in which they run."""
    return Pipeline(
        "lower",
        (
            LowerOps(keeps),
            *((FoldConstants(), MergeEqualNodes()) if optimize else ()),  # lowering repeats itself
            DropDead(),  # what lowering left over
            Schedule(),  # last: nothing moves afterwards
        ),
    )
