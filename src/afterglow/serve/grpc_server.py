"""The server's gRPC service: each method asks the core, and errors become status codes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, TypeAlias

import grpc
from google.protobuf import json_format  # type: ignore[import-untyped]  # ships no types
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

from afterglow.serve.config import ServeConfig
from afterglow.serve.core import ServerCore
from afterglow.serve.errors import ErrorKind, RequestError, invalid, request_error
from afterglow.serve.grpc_tensors import (
    MESSAGES,
    PROTOCOL,
    parameters_of,
    read_message,
    write_message,
)
from afterglow.serve.proto_text import Method
from afterglow.support.errors import UsageError

Answer: TypeAlias = Callable[[ServerCore, Any, Any], Awaitable[Any]]
_OVERHEAD = 1 << 20
"""Bytes that a message may have besides its tensors."""
_AHEAD = 32
"""Requests of a stream that run at once."""
_OPEN = ("ServerLive", "ServerReady")
"""What needs no token, because whoever starts servers asks it."""
_FINAL = "triton_enable_empty_final_response"


def grpc_server(core: ServerCore) -> grpc.aio.Server:
    """A gRPC server that asks a core."""
    most = core.config.max_body + _OVERHEAD
    server = grpc.aio.server(
        options=[
            ("grpc.max_receive_message_length", most),
            ("grpc.max_send_message_length", -1),
            ("grpc.so_reuseport", 0),
        ]
    )
    handlers = {method.name: _handler(core, method) for method in PROTOCOL.methods}
    server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler(PROTOCOL.service, handlers),)
    )
    return server


def open_port(server: grpc.aio.Server, config: ServeConfig) -> int:
    """Have a server listen; returns its port."""
    host = f"[{config.host}]" if ":" in config.host else config.host
    address = f"{host}:{config.grpc_port}"
    try:
        if config.tls_cert is None or config.tls_key is None:
            return int(server.add_insecure_port(address))
        pair = (config.tls_key.read_bytes(), config.tls_cert.read_bytes())
        return int(server.add_secure_port(address, grpc.ssl_server_credentials([pair])))
    except RuntimeError:
        raise UsageError(
            f"cannot listen at {address}", help="choose another --grpc-port, or -1 for none"
        ) from None


def _handler(core: ServerCore, method: Method) -> Any:
    """The handler of a method: checks tokens, counts, and turns errors into codes."""
    make = (
        grpc.stream_stream_rpc_method_handler
        if method.is_stream
        else (grpc.unary_unary_rpc_method_handler)
    )
    return make(
        _stream(core, method) if method.is_stream else _unary(core, method),
        response_serializer=method.response.SerializeToString,
    )


def _unary(core: ServerCore, method: Method) -> Callable[[Any, Any], Awaitable[Any]]:
    answer = ANSWERS[method.name]

    async def handle(data: bytes, context: Any) -> Any:
        try:
            if method.name not in _OPEN:
                core.authorise(_metadata(context, "authorization"))
            response = await answer(core, _parsed(method, data), context)
        except Exception as error:
            known = request_error(error)
            if known.kind is ErrorKind.INTERNAL:
                core.log.error("request failed", method=method.name, error=repr(error))
            core.metrics.answers["grpc", known.kind.code] += 1
            await context.abort(grpc.StatusCode[known.kind.code], known.message)
        core.metrics.answers["grpc", "OK"] += 1
        return response

    return handle


def _parsed(method: Method, data: bytes) -> Any:
    """The message that bytes are; here, because gRPC answers UNKNOWN if they are none."""
    try:
        return method.request.FromString(data)
    except DecodeError:
        raise invalid(f"the message is not a {method.request.DESCRIPTOR.name}") from None


def _metadata(context: Any, name: str) -> str:
    found = (value for key, value in context.invocation_metadata() or () if key == name)
    return str(next(found, ""))


def _stream(core: ServerCore, method: Method) -> Callable[[Any, Any], AsyncIterator[Any]]:
    """The handler of the stream: several requests run at once, answers come in their order."""

    async def handle(requests: AsyncIterator[bytes], context: Any) -> AsyncIterator[Any]:
        try:
            core.authorise(_metadata(context, "authorization"))
        except RequestError as error:
            await context.abort(grpc.StatusCode[error.kind.code], error.message)
        running: asyncio.Queue[asyncio.Task[Any] | None] = asyncio.Queue(_AHEAD)

        async def take() -> None:
            async for data in requests:
                await running.put(asyncio.create_task(_streamed(core, method, data, context)))
            await running.put(None)

        taking = asyncio.create_task(take())
        task: asyncio.Task[Any] | None = None
        try:
            while (task := await running.get()) is not None:
                yield await task
        finally:
            taking.cancel()
            left = [task, *(running.get_nowait() for _ in range(running.qsize()))]
            for each in left:
                if each is not None:
                    each.cancel()

    return handle


async def _streamed(core: ServerCore, method: Method, data: bytes, context: Any) -> Any:
    request = method.request()
    try:
        request = _parsed(method, data)
        response = await model_infer(core, request, context)
    except Exception as error:
        known = request_error(error)
        core.metrics.answers["grpc", known.kind.code] += 1
        failed = MESSAGES["ModelInferResponse"](model_name=request.model_name, id=request.id)
        return MESSAGES["ModelStreamInferResponse"](
            error_message=known.message, infer_response=failed
        )
    if _FINAL in request.parameters:
        response.parameters["triton_final_response"].bool_param = True
    core.metrics.answers["grpc", "OK"] += 1
    return MESSAGES["ModelStreamInferResponse"](infer_response=response)


def _message(name: str, data: Any) -> Any:
    """A message with the fields that a dictionary has."""
    return json_format.ParseDict(data, MESSAGES[name]())


async def server_live(core: ServerCore, request: Any, context: Any) -> Any:
    """Whether the process answers."""
    return MESSAGES["ServerLiveResponse"](live=True)


async def server_ready(core: ServerCore, request: Any, context: Any) -> Any:
    """Whether the server takes requests."""
    return MESSAGES["ServerReadyResponse"](ready=core.is_ready)


async def model_ready(core: ServerCore, request: Any, context: Any) -> Any:
    """Whether a model takes requests."""
    is_ready = core.is_model_ready(request.name, request.version)
    return MESSAGES["ModelReadyResponse"](ready=is_ready)


async def server_metadata(core: ServerCore, request: Any, context: Any) -> Any:
    """What the server is."""
    return _message("ServerMetadataResponse", core.server_metadata())


async def model_metadata(core: ServerCore, request: Any, context: Any) -> Any:
    """Inputs and outputs of a model."""
    found = core.model_metadata(request.name, request.version)
    return _message("ModelMetadataResponse", found)


async def model_config(core: ServerCore, request: Any, context: Any) -> Any:
    """How a model is served."""
    found = core.model_config(request.name, request.version)
    return _message("ModelConfigResponse", {"config": found})


async def model_statistics(core: ServerCore, request: Any, context: Any) -> Any:
    """Counts and times of a model, or of all."""
    found = core.statistics(request.name, request.version)
    return _message("ModelStatisticsResponse", found)


async def model_infer(core: ServerCore, request: Any, context: Any) -> Any:
    """Run a model; the deadline of the call is that of the request."""
    core.repository.find(request.model_name, request.model_version)
    made = read_message(request, core.shared_memory)
    left = context.time_remaining()
    if left is not None:
        made.timeout = left if made.timeout is None else min(left, made.timeout)
    made.traceparent = _metadata(context, "traceparent") if core.telemetry.is_on else ""
    return write_message(await core.infer(made))


async def repository_index(core: ServerCore, request: Any, context: Any) -> Any:
    """All models with their states."""
    rows = core.index({"ready": request.ready})
    return _message("RepositoryIndexResponse", {"models": [*rows]})


async def repository_load(core: ServerCore, request: Any, context: Any) -> Any:
    """Load a model."""
    await core.load(request.model_name, parameters_of(request.parameters))
    return MESSAGES["RepositoryModelLoadResponse"]()


async def repository_unload(core: ServerCore, request: Any, context: Any) -> Any:
    """Unload a model."""
    core.unload(request.model_name)
    return MESSAGES["RepositoryModelUnloadResponse"]()


async def memory_status(core: ServerCore, request: Any, context: Any) -> Any:
    """The registered regions of shared memory, or one of them."""
    regions = {row["name"]: row for row in core.shared_memory.status(request.name)}
    return _message("SystemSharedMemoryStatusResponse", {"regions": regions})


async def memory_register(core: ServerCore, request: Any, context: Any) -> Any:
    """Register a region of shared memory."""
    core.shared_memory.register(request.name, request.key, request.offset, request.byte_size)
    return MESSAGES["SystemSharedMemoryRegisterResponse"]()


async def memory_unregister(core: ServerCore, request: Any, context: Any) -> Any:
    """Forget a region of shared memory, or all."""
    core.shared_memory.unregister(request.name)
    return MESSAGES["SystemSharedMemoryUnregisterResponse"]()


ANSWERS: dict[str, Answer] = {
    "ServerLive": server_live,
    "ServerReady": server_ready,
    "ModelReady": model_ready,
    "ServerMetadata": server_metadata,
    "ModelMetadata": model_metadata,
    "ModelConfig": model_config,
    "ModelStatistics": model_statistics,
    "ModelInfer": model_infer,
    "RepositoryIndex": repository_index,
    "RepositoryModelLoad": repository_load,
    "RepositoryModelUnload": repository_unload,
    "SystemSharedMemoryStatus": memory_status,
    "SystemSharedMemoryRegister": memory_register,
    "SystemSharedMemoryUnregister": memory_unregister,
}
"""Who answers each method but the stream."""
