"""`Server`: both protocols on one event loop, from the start to the graceful end."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
import threading
from collections.abc import Callable, Generator
from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec
from time import perf_counter
from typing import Any

import uvicorn

from afterglow.serve.config import ServeConfig
from afterglow.serve.core import ServerCore
from afterglow.serve.http_app import HttpApp
from afterglow.serve.logs import Log
from afterglow.support.errors import UsageError

_BACKLOG = 1024
_NONE = -1
"""A port that stands for no server."""


class Server:
    """An inference server. `run` serves until a signal ends it; `start` and `stop` use a thread."""

    def __init__(self, config: ServeConfig, log: Log | None = None) -> None:
        self.config = config
        self.log = log or Log()
        self.http_port = _NONE
        """The port of HTTP, once it is open."""
        self.grpc_port = _NONE
        """The port of gRPC, once it is open."""
        self.core: ServerCore | None = None
        self.open = threading.Event()
        """Set once ports are open; models may still be loading."""
        self.ready = threading.Event()
        """Set once models are loaded, or the server has ended."""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._end: asyncio.Event | None = None
        self._thread: threading.Thread | None = None
        self._error: BaseException | None = None

    def run(self) -> None:
        """Serve until SIGTERM or SIGINT, and answer what is in flight then."""
        with asyncio.Runner(loop_factory=_loop_factory()) as runner:
            runner.run(self._serve(handle_signals=True))

    def start(self) -> None:
        """Serve on a thread of its own, and return once models are loaded."""

        def serve() -> None:
            try:
                with asyncio.Runner(loop_factory=_loop_factory()) as runner:
                    runner.run(self._serve(handle_signals=False))
            except BaseException as error:
                self._error = error
            finally:
                self.ready.set()

        self._thread = threading.Thread(target=serve, name="afterglow serve", daemon=True)
        self._thread.start()
        self.ready.wait()
        if self._error is not None:
            raise self._error

    def stop(self) -> None:
        """End the server gracefully."""
        if self._loop is not None and self._end is not None:
            with contextlib.suppress(RuntimeError):  # the loop has ended already
                self._loop.call_soon_threadsafe(self._end.set)
        if self._thread is not None:
            self._thread.join()

    def __enter__(self) -> Server:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    async def _serve(self, *, handle_signals: bool) -> None:
        began = perf_counter()
        self._loop, self._end = asyncio.get_running_loop(), asyncio.Event()
        if handle_signals:
            for number in (signal.SIGTERM, signal.SIGINT):
                self._loop.add_signal_handler(number, self._end.set)
        listening = _listening(self.config.host, self.config.http_port, "--http-port")
        core = self.core = ServerCore(self.config, version("afterglow"), self.log)
        http = _HttpServer(_http_config(self.config, HttpApp(core)))
        tasks = [asyncio.create_task(http.serve(sockets=[listening]))]
        self.http_port = listening.getsockname()[1]
        grpc = await self._start_grpc(core)
        self.open.set()
        self.log.info("open", host=self.config.host, http=self.http_port, grpc=self.grpc_port)
        starting = asyncio.create_task(core.repository.start())
        starting.add_done_callback(lambda _: self._tell_ready(began))
        if self.config.poll:
            tasks.append(asyncio.create_task(self._poll(core, starting)))
        await self._end.wait()
        await self._drain(core, http, grpc, [starting, *tasks[1:]])
        await tasks[0]
        self.log.info("ended")

    def _tell_ready(self, began: float) -> None:
        self.ready.set()
        self.log.info("ready", seconds=round(perf_counter() - began, 3))

    async def _poll(self, core: ServerCore, starting: asyncio.Task[None]) -> None:
        await asyncio.wait([starting])
        await core.repository.poll()

    async def _start_grpc(self, core: ServerCore) -> Any:
        if self.config.grpc_port == _NONE:
            return None
        # gRPC writes an error of its own to standard error if the port is taken
        _listening(self.config.host, self.config.grpc_port, "--grpc-port").close()
        # by name, because a server without gRPC need not have the package
        module = import_module("afterglow.serve.grpc_server")
        server = module.grpc_server(core)
        self.grpc_port = module.open_port(server, self.config)
        await server.start()
        return server

    async def _drain(
        self, core: ServerCore, http: _HttpServer, grpc: Any, tasks: list[asyncio.Task[None]]
    ) -> None:
        """Refuse new requests, answer those in flight, and end both protocols."""
        self.log.info("draining")
        core.is_draining = True
        for task in tasks:
            task.cancel()
        await core.repository.close(self.config.drain)
        if grpc is not None:
            await grpc.stop(1.0)
        http.should_exit = True
        core.shared_memory.close()


class _HttpServer(uvicorn.Server):
    """The HTTP server, which leaves signals to the server as a whole."""

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """Handle no signals."""
        yield


def _http_config(config: ServeConfig, app: HttpApp) -> uvicorn.Config:
    secure: dict[str, Any] = {}
    if config.tls_cert is not None:
        secure = {"ssl_certfile": str(config.tls_cert), "ssl_keyfile": str(config.tls_key)}
    return uvicorn.Config(
        app,
        http="httptools" if find_spec("httptools") else "h11",
        ws="none",
        lifespan="off",
        interface="asgi3",
        log_config=None,
        log_level="critical",
        access_log=False,
        proxy_headers=False,
        server_header=False,
        date_header=False,
        limit_concurrency=config.max_connections,
        timeout_keep_alive=max(1, round(config.idle_timeout)),
        timeout_graceful_shutdown=1,
        **secure,
    )


def _listening(host: str, port: int, flag: str) -> socket.socket:
    """A socket that listens; an error says which address is taken, and which flag it is from."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, max(port, 0)))
        listening.listen(_BACKLOG)
    except OSError as error:
        listening.close()
        why = (error.strerror or str(error)).lower()
        raise UsageError(
            f"cannot listen at {host}:{port}: {why}", help=f"choose another {flag}"
        ) from None
    listening.setblocking(False)
    return listening


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop]:
    """The fastest event loop that is installed."""
    if find_spec("uvloop") is None:
        return asyncio.new_event_loop
    # by name, because the package is optional
    made: Callable[[], asyncio.AbstractEventLoop] = import_module("uvloop").new_event_loop
    return made
