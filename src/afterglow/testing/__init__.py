"""What a backend, ours or another package's, is tested with.

The conformance class needs pytest and hypothesis, and is imported when it is asked for; the cases
of ops and ONNX's suite need neither.
"""

import importlib as _importlib
import typing as _typing

if _typing.TYPE_CHECKING:
    from afterglow.testing.conformance import BackendConformance
    from afterglow.testing.install import install

__all__ = ["BackendConformance", "install"]

_CHECKS = ("artifact", "device", "op", "random", "ranged_op")
_HOMES = {"BackendConformance": "conformance", "install": "install"}


def __getattr__(name: str) -> _typing.Any:
    """Import what is asked for; pytest explains the assertions of what is imported then."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name == "BackendConformance":
        checks = (f"{__name__}.{name}_checks" for name in _CHECKS)
        _importlib.import_module("pytest").register_assert_rewrite(*checks)
    found = getattr(_importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = found
    return found
