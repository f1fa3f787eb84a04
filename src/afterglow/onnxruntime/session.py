"""`InferenceSession`: a compiled model behind the interface of ONNX Runtime."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from threading import current_thread
from typing import Any

from afterglow.driver.api import compile
from afterglow.driver.load import load
from afterglow.onnxruntime.binding import IOBinding
from afterglow.onnxruntime.elements import element_text
from afterglow.onnxruntime.errors import InvalidArgument, NoSuchFile, translated
from afterglow.onnxruntime.onnx_file import ModelMetadata, read_metadata, read_types
from afterglow.onnxruntime.options import (
    CPU_PROVIDER,
    LOG,
    RunOptions,
    SessionOptions,
    check_providers,
    check_runs,
)
from afterglow.onnxruntime.values import OrtValue
from afterglow.runtime import CompiledModel, TensorInfo
from afterglow.runtime.background import in_background
from afterglow.runtime.load import is_saved_model
from afterglow.runtime.trace import Row, Trace
from afterglow.support.errors import AfterglowError
from afterglow.support.lazy_dataclass import dataclass

_IGNORED = ("disabled_optimizers", "enable_fallback", "read_config_from_model")
"""Further arguments that ONNX Runtime takes."""


@dataclass(frozen=True)
class NodeArg:
    """An input or output: its name, its type such as `tensor(float)`, and its shape.

    A dynamic dimension is given by its name, or None if it has none.
    """

    name: str
    type: str
    shape: list[int | str | None]


class InferenceSession:
    """A model that is ready to run, as programs for ONNX Runtime use one.

    It compiles a model, or finds it compiled in the cache, or loads a saved one (FILE.agc).
    `model` is the `CompiledModel`. Further arguments are options of `afterglow.compile`.
    """

    def __init__(
        self,
        path_or_bytes: str | bytes | os.PathLike[str],
        sess_options: SessionOptions | None = None,
        providers: Sequence[Any] | None = None,
        provider_options: Sequence[Mapping[str, Any]] | None = None,
        **kwargs: Any,
    ) -> None:
        check_providers(providers, provider_options)
        self._options = SessionOptions() if sess_options is None else sess_options
        self._source = _checked_source(path_or_bytes)
        self._trace = Trace() if self._options.enable_profiling else None
        self._started_ns = time.time_ns()
        given = {name: value for name, value in kwargs.items() if name not in _IGNORED}
        try:
            self.model = _opened(self._source, {**self._options.compile_options(), **given})
        except AfterglowError as error:
            raise translated(error) from error

    def get_inputs(self) -> list[NodeArg]:
        """The inputs."""
        return [self._node_arg(info) for info in self.model.inputs]

    def get_outputs(self) -> list[NodeArg]:
        """The outputs."""
        return [self._node_arg(info) for info in self.model.outputs]

    def get_overridable_initializers(self) -> list[NodeArg]:
        """The weights that a run may replace: none."""
        return []

    def _node_arg(self, info: TensorInfo) -> NodeArg:
        known = f"tensor({element_text(info.dtype)})"
        type = known if info.dtype is not None else self._types.get(info.name, known)
        return NodeArg(info.name, type, [*(info.shape or ())])

    @cached_property
    def _types(self) -> Mapping[str, str]:
        """The types that the model declares."""
        return read_types(self._source)

    def get_modelmeta(self) -> ModelMetadata:
        """What the model says about itself; a saved model says nothing."""
        return read_metadata(self._source)

    def get_session_options(self) -> SessionOptions:
        """The options that it was created with."""
        return self._options

    def get_providers(self) -> list[str]:
        """What runs the model."""
        return [CPU_PROVIDER]

    def get_provider_options(self) -> dict[str, dict[str, str]]:
        """The options of what runs the model: none."""
        return {CPU_PROVIDER: {}}

    def set_providers(
        self,
        providers: Sequence[Any] | None = None,
        provider_options: Sequence[Mapping[str, Any]] | None = None,
    ) -> None:
        """Accept providers; the model runs on the CPU."""
        check_providers(providers, provider_options)

    def disable_fallback(self) -> None:
        """Accepted: there is nothing to fall back to."""

    def enable_fallback(self) -> None:
        """Accepted: there is nothing to fall back to."""

    def run(
        self,
        output_names: Sequence[str] | None,
        input_feed: Mapping[str, Any],
        run_options: RunOptions | None = None,
    ) -> list[Any]:
        """The outputs of the given names, or all without names, for inputs by name."""
        check_runs(run_options)
        try:
            if self._trace is not None:
                with self._trace.span(Row("afterglow", current_thread().name), "model_run"):
                    return self.model.run(output_names or None, input_feed)
            return self.model.run(output_names or None, input_feed)
        except AfterglowError as error:
            raise translated(error) from error

    def run_with_ort_values(
        self,
        output_names: Sequence[str] | None,
        input_dict_ort_values: Mapping[str, OrtValue],
        run_options: RunOptions | None = None,
    ) -> list[OrtValue]:
        """The same on values, as values."""
        feed = {name: value.numpy() for name, value in input_dict_ort_values.items()}
        return [OrtValue(output) for output in self.run(output_names, feed, run_options)]

    def run_async(
        self,
        output_names: Sequence[str] | None,
        input_feed: Mapping[str, Any],
        callback: Callable[[list[Any], Any, str], Any],
        user_data: Any,
        run_options: RunOptions | None = None,
    ) -> None:
        """Run in the background, then call back with outputs, user data, and an error's text."""

        def work() -> None:
            try:
                outputs, error = self.run(output_names, input_feed, run_options), ""
            except AfterglowError as raised:
                outputs, error = [], str(raised)
            callback(outputs, user_data, error)

        in_background(work, "call")

    def io_binding(self) -> IOBinding:
        """What binds inputs and outputs to memory."""
        return IOBinding()

    def run_with_iobinding(
        self, iobinding: IOBinding, run_options: RunOptions | None = None
    ) -> None:
        """Run on what is bound; outputs are written directly to the memory that they have."""
        check_runs(run_options)
        names = [info.name for info in self.model.outputs]
        targets = {name: array for name, array in iobinding.outputs.items() if array is not None}
        try:
            outputs = self.model.run_into(targets, iobinding.inputs)
        except AfterglowError as error:
            raise translated(error) from error
        by_name = dict(zip(names, outputs if len(names) > 1 else (outputs,), strict=True))
        iobinding.results = [by_name[name] for name in iobinding.outputs]

    def end_profiling(self) -> str:
        """Write the runs since the session was created as a trace; the name of its file."""
        if self._trace is None:
            return ""
        stamp = time.strftime("%Y-%m-%d_%H-%M-%S", time.localtime(self._started_ns // 10**9))
        path = f"{self._options.profile_file_prefix}{stamp}.json"
        self._trace.save(path)
        return path

    def get_profiling_start_time_ns(self) -> int:
        """When profiling began."""
        return self._started_ns


def _checked_source(given: Any) -> bytes | Path:
    """The model as a path or bytes; raises if it is neither, or a path of nothing."""
    if isinstance(given, (bytes, bytearray, memoryview)):
        return bytes(given)
    if not isinstance(given, (str, os.PathLike)):
        raise InvalidArgument(
            f"a model cannot be loaded from a {type(given).__name__}",
            help="give a path, or the bytes of a model",
        )
    path = Path(given)
    if not path.exists():
        raise NoSuchFile("cannot read the model: no such file or directory", where=f"in {path}")
    return path


def _opened(source: bytes | Path, options: dict[str, Any]) -> CompiledModel:
    """The model compiled, or loaded if it was saved."""
    if isinstance(source, bytes) or not is_saved_model(source):
        return compile(source, **options)
    for name in sorted(options.keys() - {"threads", "cache"}):
        LOG.debug("option %s has no effect on a model that was compiled before", name)
    return load(source, **{k: v for k, v in options.items() if k in ("threads", "cache")})
