"""Requests and answers of an inference, as both protocols give them to the core."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from afterglow.serve.errors import invalid
from afterglow.types import Array

DEFAULT_PRIORITY = 5
"""The priority of requests that name none, or 0; a lower number begins first."""
LOWEST_PRIORITY = 10
TRACE_KERNELS = "trace_kernels"
"""The parameter of a request whose trace is to have the kernels of its run."""
_MICROSECONDS = 1e-6
LONGEST_TIMEOUT = 1 << 50
"""Microseconds; what is longer is refused, because clocks do not count that far."""


@dataclass(frozen=True, slots=True)
class SharedRegion:
    """A part of a shared memory region that has an input or gets an output."""

    name: str
    offset: int
    nbytes: int

    @staticmethod
    def of(parameters: Mapping[str, Any], what: str) -> SharedRegion | None:
        """The part that the parameters of a tensor name; None if they name none."""
        name = parameters.get("shared_memory_region")
        if name is None:
            return None
        sizes = [parameters.get(f"shared_memory_{each}", 0) for each in ("offset", "byte_size")]
        if not isinstance(name, str) or any(type(s) is not int or s < 0 for s in sizes):
            raise invalid(f"{what} names a part of shared memory that is not one")
        return SharedRegion(name, *sizes)


@dataclass(frozen=True, slots=True)
class WantedOutput:
    """An output that a request names, and how it is given back."""

    name: str
    is_binary: bool = False
    region: SharedRegion | None = None

    @staticmethod
    def of(name: Any, parameters: Any, *, binary: bool = False) -> WantedOutput:
        """What a request says of an output."""
        if not isinstance(name, str) or not isinstance(parameters, Mapping):
            raise invalid("an output needs a name, and parameters as an object")
        if parameters.get("classification"):
            raise invalid(
                f"output {name[:80]!r}: classification is not supported",
                help="ask for the output itself, and take its largest elements",
            )
        region = SharedRegion.of(parameters, f"output {name[:80]!r}")
        return WantedOutput(name, bool(parameters.get("binary_data", binary)), region)


@dataclass(slots=True)
class InferRequest:
    """What is asked of a model: tensors by name, and which outputs are wanted."""

    model: str
    version: str = ""
    id: str = ""
    inputs: dict[str, Array] = field(default_factory=dict)
    outputs: Sequence[WantedOutput] = ()
    """Empty for all outputs."""
    priority: int = DEFAULT_PRIORITY
    timeout: float | None = None
    """Seconds within which it has to begin."""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    is_traced: bool = False
    """Whether its trace is to have the kernels of its run."""
    traceparent: str = ""
    """The trace that it belongs to, in the form of the W3C."""

    def apply(self, parameters: Mapping[str, Any]) -> None:
        """Take over the parameters that the server knows."""
        self.parameters = parameters
        priority, timeout = parameters.get("priority", 0), parameters.get("timeout")
        if type(priority) is not int or not 0 <= priority <= LOWEST_PRIORITY:
            raise invalid(
                f"the priority must be a whole number up to {LOWEST_PRIORITY}, "
                f"got {str(priority)[:40]!r}"
            )
        self.priority = priority or DEFAULT_PRIORITY
        is_traced = parameters.get(TRACE_KERNELS, False)
        if type(is_traced) is not bool:
            raise invalid(f"{TRACE_KERNELS} must be true or false, got {str(is_traced)[:40]!r}")
        self.is_traced = is_traced
        if any(parameters.get(name) for name in ("sequence_id", "sequence_start", "sequence_end")):
            raise invalid("sequences are not supported: a model answers each request on its own")
        if timeout is not None:
            if type(timeout) is not int or not 0 <= timeout <= LONGEST_TIMEOUT:
                raise invalid(f"the timeout must be microseconds, got {str(timeout)[:40]!r}")
            self.timeout = timeout * _MICROSECONDS or None


@dataclass(frozen=True, slots=True)
class InferOutput:
    """An output of a model; with a region, its bytes are in shared memory."""

    name: str
    datatype: str
    array: Array
    is_binary: bool = False
    region: SharedRegion | None = None


@dataclass(frozen=True, slots=True)
class InferResponse:
    """The answer to an inference."""

    model: str
    version: str
    id: str
    outputs: Sequence[InferOutput]
    parameters: Mapping[str, Any] = field(default_factory=dict)
