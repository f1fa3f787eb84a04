"""Whether options about precision fit each other, and the backend."""

from __future__ import annotations

from afterglow.backends.backend import Backend
from afterglow.driver.options import ACTIVATIONS, PRECISIONS, Options
from afterglow.support.errors import UsageError


def check_precision(options: Options, backend: Backend) -> None:
    """Refuse a storage type of weights that is unknown, or that the target reads slowly."""
    if options.precision not in PRECISIONS:
        raise UsageError(
            f"no precision {options.precision!r}", help=f"there are {', '.join(PRECISIONS)}"
        )
    if options.activations not in (None, *ACTIVATIONS):
        raise UsageError(
            f"no activations {options.activations!r}", help=f"there are {', '.join(ACTIVATIONS)}"
        )
    precision = PRECISIONS[options.precision]
    if options.rounding is not None:
        _check_rounding(options)
    if precision.by_profile:
        _check_profile(options)
    elif options.quantization is not None or (options.profile and not precision.floats):
        what = "profile" if options.quantization is None else "options of quantization"
        raise UsageError(
            f"precision {options.precision!r} takes no {what}", help="use precision 'int8'"
        )
    if options.keep and not (precision.by_profile or precision.floats):
        raise UsageError(
            f"precision {options.precision!r} keeps no nodes apart",
            help="use precision 'float16', 'bfloat16' or 'int8'",
        )
    if options.allow and not precision.floats:
        raise UsageError(
            f"precision {options.precision!r} has no list of allowed ops",
            help="use precision 'float16' or 'bfloat16'",
        )
    stored = precision.weights
    if stored is not None and not backend.target.reads(stored):
        raise UsageError(
            f"target {options.target!r} has no instructions that convert {stored}",
            help="use precision weights_bf16, which every target reads fast",
        )


def _check_rounding(options: Options) -> None:
    """Refuse samples to round weights by if none are rounded, or not those that samples tell of."""
    if not PRECISIONS[options.precision].has_integers:
        rounding = ", ".join(name for name, kind in PRECISIONS.items() if kind.has_integers)
        raise UsageError(
            f"precision {options.precision!r} rounds no weights to integers",
            help=f"leave out the samples to round by, or use precision {rounding}",
        )
    if not options.optimize:
        raise UsageError(
            "rounding weights by samples needs optimisations",
            help="layers are those of the optimised graph: leave optimize as it is",
        )


def _check_profile(options: Options) -> None:
    """Refuse to choose integers without a profile, or for a graph that was not profiled."""
    if options.profile is None:
        raise UsageError(
            f"precision {options.precision!r} needs a profile of the model",
            help="make one with profile(model, samples), or with afterglow quantize MODEL --data",
        )
    if not options.optimize:
        raise UsageError(
            f"precision {options.precision!r} needs optimisations",
            help="profiles are of the optimised graph: leave optimize as it is",
        )
