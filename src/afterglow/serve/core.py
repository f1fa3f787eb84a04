"""What the server answers, whatever protocol asks: inference, metadata, statistics, control."""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import Sequence
from time import perf_counter
from typing import Any

from afterglow.serve.config import ServeConfig
from afterglow.serve.datatypes import datatype_of, to_raw
from afterglow.serve.errors import ErrorKind, RequestError, invalid, request_error
from afterglow.serve.logs import Log
from afterglow.serve.metrics import Metrics
from afterglow.serve.repository import Repository
from afterglow.serve.served import ServedModel
from afterglow.serve.shared_memory import SharedMemory
from afterglow.serve.telemetry import Telemetry
from afterglow.serve.tensors import InferOutput, InferRequest, InferResponse, WantedOutput
from afterglow.types import Array
from afterglow.types.dtype import DType

NAME = "afterglow"
EXTENSIONS = ("binary_tensor_data", "model_repository", "model_configuration", "statistics")


class ServerCore:
    """Answers requests; both protocols only translate for it."""

    def __init__(self, config: ServeConfig, version: str, log: Log) -> None:
        self.config = config
        self.version = version
        self.log = log
        self.repository = Repository(config, log)
        self.shared_memory = SharedMemory(is_enabled=config.shared_memory)
        self.completions = self.repository.completions
        self.metrics = Metrics()
        self.telemetry = Telemetry()
        self.is_draining = False
        file = config.token_file
        lines = [] if file is None else file.read_text(encoding="utf-8").splitlines()
        self._tokens = [line.strip().encode() for line in lines if line.strip()]
        self._needs_token = file is not None

    def authorise(self, header: str) -> None:
        """Refuse a request whose header has none of the tokens; each is compared in full."""
        if not self._needs_token:
            return
        scheme, _, token = header.partition(" ")
        given = token.strip().encode()
        matches = [hmac.compare_digest(given, known) for known in self._tokens]
        if scheme.lower() != "bearer" or not any(matches):
            raise RequestError(
                ErrorKind.UNAUTHENTICATED,
                "a token is needed",
                help="send the header Authorization: Bearer TOKEN",
            )

    @property
    def is_ready(self) -> bool:
        """Whether requests are taken: models are loaded, and the server is not shutting down."""
        return self.repository.is_loaded and not self.is_draining

    def is_model_ready(self, name: str, version: str) -> bool:
        """Whether a model takes requests."""
        if not self.repository.has(name):
            return False
        state = self.repository.models[name]
        if state.text is not None:
            return version in ("", *state.found)
        return version in state.served if version else bool(state.served)

    def server_metadata(self) -> dict[str, Any]:
        """Name, version and extensions of the server."""
        shared = ("system_shared_memory",) if self.shared_memory.is_enabled else ()
        return {"name": NAME, "version": self.version, "extensions": [*EXTENSIONS, *shared]}

    def model_metadata(self, name: str, version: str) -> dict[str, Any]:
        """Inputs and outputs of a model."""
        served = self.repository.find(name, version)
        return served.metadata(sorted(self.repository.models[name].served, key=int))

    def model_config(self, name: str, version: str) -> dict[str, Any]:
        """How a model is served."""
        return self.repository.find(name, version).config()

    def statistics(self, name: str, version: str) -> dict[str, Any]:
        """Counts and times of a model, or of all."""
        found = [self.repository.find(name, version)] if name else self.repository.all_served()
        rows = [each.statistics.data(each.name, each.version, each.nbytes) for each in found]
        return {"model_stats": rows}

    async def load(self, name: str, parameters: Any) -> None:
        """Load a model of the folder, or what changed of it."""
        self._check_control()
        if parameters:
            raise invalid(
                "models are loaded only from the folder of the server, as it configures them"
            )
        try:
            await self.repository.load(name)
        except RequestError:
            raise
        except Exception as error:
            known = request_error(error)
            raise RequestError(
                ErrorKind.INVALID, f"model {name!r} cannot be loaded: {known.what}"
            ) from error

    def unload(self, name: str) -> None:
        """Take a model from service."""
        self._check_control()
        self.repository.unload(name)

    def _check_control(self) -> None:
        if not self.config.control:
            raise RequestError(
                ErrorKind.UNIMPLEMENTED,
                "this server does not let clients load and unload models",
                help="it was started with --no-control",
            )

    def refuse_if_draining(self) -> None:
        """Refuse a request while the server is shutting down."""
        if self.is_draining:
            raise RequestError(ErrorKind.UNAVAILABLE, "the server is shutting down")

    async def infer(self, request: InferRequest) -> InferResponse:
        """Run a model on what a request has, and answer with the outputs that it wants."""
        began = perf_counter()
        self.refuse_if_draining()
        served = self.repository.find(request.model, request.version)
        try:
            response = await self._infer(request, served)
        except (Exception, asyncio.CancelledError) as error:
            known, ended = request_error(error), perf_counter()
            served.statistics.failed(ended - began, known.kind.name.lower())
            self.telemetry.record_failure(request.traceparent, served.name, began, ended, known)
            if known.kind is ErrorKind.INTERNAL:
                self.log.error("internal error", model=served.name, error=repr(error))
            raise
        return response

    async def _infer(self, request: InferRequest, served: ServedModel) -> InferResponse:
        if request.is_traced and not self.telemetry.is_on:
            raise RequestError(
                ErrorKind.UNIMPLEMENTED,
                "this server records no traces",
                help="start it with OpenTelemetry: docs/serve.md says how",
            )
        rows, key = served.checked(request.inputs)
        wanted = request.outputs or [WantedOutput(name) for name in served.outputs]
        for each in wanted:
            if each.name not in served.outputs:
                listed = ", ".join(served.outputs)
                raise invalid(
                    f"model {served.name!r} has no output {each.name[:80]!r}",
                    help=f"it has {listed}",
                )
        arrays, job = await served.batcher.run(
            request.inputs,
            rows,
            key,
            request.priority,
            request.timeout,
            is_traced=request.is_traced,
        )
        by_name = dict(zip(served.outputs, arrays, strict=True))
        outputs = [self._output(each, served, by_name[each.name]) for each in wanted]
        ended = perf_counter()
        served.statistics.succeed(ended - job.came, rows)
        self.telemetry.record(request.traceparent, served.name, job, ended)
        return InferResponse(served.name, served.version, request.id, outputs)

    def _output(self, wanted: WantedOutput, served: ServedModel, array: Array) -> InferOutput:
        info = served.outputs[wanted.name]
        datatype = datatype_of(info.dtype or DType.of(array.dtype)) or "INVALID"
        if wanted.region is not None:
            self.shared_memory.write(wanted.region, to_raw(array))
        return InferOutput(wanted.name, datatype, array, wanted.is_binary, wanted.region)

    def index(self, parameters: Any) -> Sequence[dict[str, str]]:
        """All models with their states."""
        only_ready = isinstance(parameters, dict) and parameters.get("ready") is True
        return self.repository.index(only_ready=only_ready)
