"""Options of sessions and runs, as ONNX Runtime has them, and what Afterglow makes of them."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, NoReturn

from afterglow.onnxruntime import errors
from afterglow.support.errors import warn

CPU_PROVIDER = "CPUExecutionProvider"
"""What runs models."""
LOG = logging.getLogger("afterglow.onnxruntime")


class GraphOptimizationLevel(IntEnum):
    """How much a graph is optimised; all levels but the first mean the same here."""

    ORT_DISABLE_ALL = 0
    ORT_ENABLE_BASIC = 1
    ORT_ENABLE_EXTENDED = 2
    ORT_ENABLE_LAYOUT = 3
    ORT_ENABLE_ALL = 99


class ExecutionMode(IntEnum):
    """Whether ops run one after the other; threads share each op here, whatever it says."""

    ORT_SEQUENTIAL = 0
    ORT_PARALLEL = 1


class ExecutionOrder(IntEnum):
    """The order of ops; Afterglow chooses it for the least memory."""

    DEFAULT = 0
    PRIORITY_BASED = 1
    MEMORY_EFFICIENT = 2


@dataclass(slots=True, eq=False)
class SessionOptions:
    """Options of a session.

    The number of threads (`intra_op_num_threads`), dynamic dimensions, the graph optimisation level
    `ORT_DISABLE_ALL` and profiling have an effect; the others are accepted.
    """

    enable_cpu_mem_arena: bool = True
    enable_mem_pattern: bool = True
    enable_mem_reuse: bool = True
    enable_profiling: bool = False
    execution_mode: ExecutionMode = ExecutionMode.ORT_SEQUENTIAL
    execution_order: ExecutionOrder = ExecutionOrder.DEFAULT
    graph_optimization_level: GraphOptimizationLevel = GraphOptimizationLevel.ORT_ENABLE_ALL
    inter_op_num_threads: int = 0
    intra_op_num_threads: int = 0
    log_severity_level: int = -1
    log_verbosity_level: int = 0
    logid: str = ""
    optimized_model_filepath: str = ""
    profile_file_prefix: str = "onnxruntime_profile_"
    use_deterministic_compute: bool = False
    use_per_session_threads: bool = True
    _config: dict[str, str] = field(default_factory=dict, init=False, repr=False)
    _dims: dict[str, int] = field(default_factory=dict, init=False, repr=False)

    def add_session_config_entry(self, key: str, value: str) -> None:
        """Note an entry of the configuration, which has no effect."""
        LOG.debug("session config entry %s = %s has no effect", key, value)
        self._config[key] = value

    def get_session_config_entry(self, key: str) -> str:
        """An entry that was noted."""
        if key not in self._config:
            raise errors.Fail(f"there is no session config entry {key!r}")
        return self._config[key]

    def add_free_dimension_override_by_name(self, name: str, extent: int) -> None:
        """Bind a dynamic dimension."""
        self._dims[name] = extent

    def add_free_dimension_override_by_denotation(self, denotation: str, extent: int) -> None:
        """Accepted: a dimension that is not bound by its name stays dynamic."""
        LOG.debug("dimensions of denotation %s stay dynamic", denotation)

    def register_custom_ops_library(self, path: str) -> NoReturn:
        """Refuse: kernels of ONNX Runtime's libraries cannot be called."""
        raise errors.NotImplemented(
            f"the library of custom ops {path!r} cannot be used: its kernels are ONNX Runtime's",
            help="define the ops in NumPy or in index notation: docs/ops-of-your-own.md",
        )

    def add_initializer(self, name: str, value: Any) -> NoReturn:
        """Refuse: a model's weights are those in its file."""
        raise errors.NotImplemented(
            f"initializer {name!r} cannot be replaced when a session is created",
            help="change it in the model, as an onnx.ModelProto, and give the session its bytes",
        )

    def add_external_initializers(self, names: Sequence[str], values: Sequence[Any]) -> NoReturn:
        """Refuse, as `add_initializer`."""
        self.add_initializer(names[0] if names else "", values)

    def compile_options(self) -> dict[str, Any]:
        """What `afterglow.compile` is told of them."""
        if self.optimized_model_filepath:
            warn(
                f"no optimized model is written to {self.optimized_model_filepath}: "
                "session.model.save() writes the compiled one"
            )
        level = self.graph_optimization_level
        return {
            "threads": self.intra_op_num_threads or None,
            "optimize": level != GraphOptimizationLevel.ORT_DISABLE_ALL,
            "dims": dict(self._dims),
        }


@dataclass(slots=True, eq=False)
class RunOptions:
    """Options of a run; only `terminate` has an effect, before the run begins."""

    log_severity_level: int = -1
    log_verbosity_level: int = 0
    logid: str = ""
    only_execute_path_to_fetches: bool = False
    terminate: bool = False
    _config: dict[str, str] = field(default_factory=dict, init=False, repr=False)

    def add_run_config_entry(self, key: str, value: str) -> None:
        """Note an entry of the configuration, which has no effect."""
        LOG.debug("run config entry %s = %s has no effect", key, value)
        self._config[key] = value

    def get_run_config_entry(self, key: str) -> str:
        """An entry that was noted."""
        if key not in self._config:
            raise errors.Fail(f"there is no run config entry {key!r}")
        return self._config[key]

    def add_active_adapter(self, adapter: Any) -> NoReturn:
        """Refuse: without the adapter, results would be others."""
        raise errors.NotImplemented(
            "adapters cannot be added to a run", help="merge it into the model"
        )


def check_runs(options: RunOptions | None) -> None:
    """Raise if a run is not to begin."""
    if options is not None and options.terminate:
        raise errors.Fail("the run was terminated before it began: RunOptions.terminate is set")


def check_providers(
    providers: Sequence[Any] | None, options: Sequence[Mapping[str, Any]] | None
) -> None:
    """Check providers as a program lists them: names, or pairs of a name and options."""
    for provider in providers or ():
        name = provider[0] if isinstance(provider, tuple) else provider
        if not isinstance(name, str):
            raise errors.InvalidArgument(f"a provider must be a name, got {name!r}")
        if name != CPU_PROVIDER:
            warn(f"there is no provider {name!r}: the model runs on the CPU")
    if options and any(options):
        LOG.debug("provider options %s have no effect", options)
