"""The models that are served: loaded from the folder, replaced and removed while requests run."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import field, replace
from itertools import count
from time import perf_counter, process_time
from typing import Any

from afterglow.host.host import Host
from afterglow.runtime.logical_device import LogicalDevice
from afterglow.runtime.partitioned.graph import DEVICE as PARTITIONED
from afterglow.serve.batching import BatchLimits
from afterglow.serve.completions import Completions
from afterglow.serve.config import ModelConfig, ServeConfig
from afterglow.serve.errors import ErrorKind, RequestError, invalid, not_found
from afterglow.serve.folder import SUFFIXES, FoundModel, ModelKind, scan
from afterglow.serve.loading import LoadedModel, load_found
from afterglow.serve.logs import Log
from afterglow.serve.served import Clock, ServedModel
from afterglow.serve.statistics import ServedStatistics
from afterglow.support.errors import AfterglowError, ModelError
from afterglow.support.lazy_dataclass import dataclass
from afterglow.text import Generator

_TEXT_PAUSE = 0.02
"""Seconds between looks whether all texts are done, at the end."""
_ACTIVE = 4
"""Runs that the host is given for each of its devices at most; the rest waits in batchers."""


@dataclass
class ModelState:
    """A model of the folder: what is found of it, what is served, and why not more."""

    found: dict[str, FoundModel] = field(default_factory=dict)
    served: dict[str, ServedModel] = field(default_factory=dict)
    text: Generator | None = None
    """What generates texts, if it is a language model."""
    text_stamp: tuple[int, int, int] | None = None
    is_loading: bool = False
    reason: str = ""
    is_unloaded: bool = False
    """Whether a client unloaded it, so that changes of its file do not load it again."""

    @property
    def newest(self) -> ServedModel | None:
        """The version that answers requests which name none."""
        return self.served[max(self.served, key=int)] if self.served else None


class Repository:
    """The served models, by name; all but loading happens on the event loop."""

    def __init__(self, config: ServeConfig, log: Log) -> None:
        self.config = config
        self.models: dict[str, ModelState] = {}
        self.completions = Completions()
        self.is_loaded = False
        """Whether the models of the start are there, so that the server is ready."""
        self._log = log
        self._loads = asyncio.Lock()
        self._numbers = count(1)
        self._seen: dict[str, dict[str, FoundModel]] = {}
        self._retiring: set[asyncio.Task[None]] = set()
        devices = [
            LogicalDevice(f"cpu:{number}", threads=config.threads_each)
            for number in range(self._most_instances())
        ]
        most = _ACTIVE * len(devices) * 64
        self.host = Host(devices, max_active=most, max_queue=most)

    def _most_instances(self) -> int:
        each = (model.instances or 0 for model in self.config.model.values())
        return max(self.config.most_instances, *each, 1)

    def find(self, name: str, version: str = "") -> ServedModel:
        """The version of a model that takes requests; the newest if none is named."""
        state = self.models.get(name)
        if state is None:
            raise _unknown(name)
        served = state.served.get(version) if version else state.newest
        if served is not None:
            return served
        if version and version not in state.found:
            raise not_found(f"model {name!r} has no version {version[:80]!r}")
        if ModelKind.TEXT in (each.kind for each in state.found.values()):
            raise RequestError(
                ErrorKind.INVALID,
                f"model {name!r} is a language model",
                help="ask for completions: /v1/completions",
            )
        why = state.reason or ("it is being loaded" if state.is_loading else "it is not loaded")
        raise RequestError(ErrorKind.UNAVAILABLE, f"model {name!r} is not ready: {why}")

    def find_text(self, name: str) -> Generator:
        """The language model of a name."""
        state = self.models.get(name)
        if state is None:
            raise _unknown(name)
        if state.text is None and state.served:
            raise invalid(f"model {name!r} is not a language model")
        if state.text is None:
            why = state.reason or "it is not loaded"
            raise RequestError(ErrorKind.UNAVAILABLE, f"model {name!r} is not ready: {why}")
        return state.text

    def has(self, name: str) -> bool:
        """Whether the folder has a model of this name."""
        return name in self.models

    def index(self, *, only_ready: bool = False) -> list[dict[str, str]]:
        """Each version of each model with its state, as the protocol lists them."""
        rows = []
        for name, state in self.models.items():
            for version in sorted({*state.found, *state.served}, key=int):
                is_ready = version in state.served or state.text is not None
                ready = "LOADING" if state.is_loading else "UNAVAILABLE"
                reason = "" if is_ready else state.reason
                row = {"name": name, "version": version, "state": "READY" if is_ready else ready}
                if is_ready or not only_ready:
                    rows.append({**row, "reason": reason})
        return rows

    def all_served(self) -> Iterable[ServedModel]:
        """Every version that takes requests."""
        return [served for state in self.models.values() for served in state.served.values()]

    async def start(self) -> None:
        """Load the models of the folder that the configuration names."""
        await self._rescan()
        wanted = self.config.load or tuple(self.models)
        if not self.models:
            known = ", ".join(f"NAME{suffix}" for suffix in SUFFIXES)
            self._log.error("no models found", folder=str(self.config.models), known=known)
        for name in wanted:
            try:
                await self.load(name, rescan=False)
            except AfterglowError as error:
                self._log.error("model not loaded", model=name, reason=error.what)
        self.is_loaded = True

    async def _rescan(self) -> None:
        loop = asyncio.get_running_loop()
        found = await loop.run_in_executor(None, scan, self.config.models, self.config.versions)
        for name, versions in found.items():
            self.models.setdefault(name, ModelState()).found = versions
        for name, state in self.models.items():
            if name not in found:
                state.found = {}

    async def load(self, name: str, *, rescan: bool = True) -> None:
        """Load a model, or what changed of it; what is replaced ends after its last request."""
        async with self._loads:
            if rescan:
                await self._rescan()
            state = self.models.get(name)
            if state is None or not state.found:
                raise _unknown(name)
            state.is_loading, state.is_unloaded = True, False
            try:
                if ModelKind.TEXT in (each.kind for each in state.found.values()):
                    await self._load_text(state)
                else:
                    await self._load_versions(name, state)
                state.reason = ""
            except AfterglowError as error:
                state.reason = error.what
                raise
            finally:
                state.is_loading = False

    async def _load_text(self, state: ModelState) -> None:
        """Load the newest version of a language model, unless it is there already."""
        found = state.found[max(state.found, key=int)]
        if state.text is not None and state.text_stamp == found.stamp:
            return
        began = perf_counter()
        threads = self.config.threads or None
        loop = asyncio.get_running_loop()
        state.text = await loop.run_in_executor(None, load_text, found, threads)
        state.text_stamp = found.stamp
        seconds = round(perf_counter() - began, 3)
        self._log.info("language model loaded", model=found.name, seconds=seconds)

    async def _load_versions(self, name: str, state: ModelState) -> None:
        for version, found in state.found.items():
            old = state.served.get(version)
            if old is not None and old.found.stamp == found.stamp:
                continue
            served = await self._loaded(found, None if old is None else old.statistics)
            state.served[version] = served
            if old is not None:
                self._retire(old)
        for version in [*state.served]:
            if version not in state.found:
                self._retire(state.served.pop(version))

    async def _loaded(self, found: FoundModel, statistics: ServedStatistics | None) -> ServedModel:
        began = perf_counter()
        loop = asyncio.get_running_loop()
        served = await loop.run_in_executor(None, self._load, found, statistics)
        self._log.info(
            "model loaded",
            model=found.name,
            version=found.version,
            seconds=round(perf_counter() - began, 3),
            max_batch=served.batcher.limits.max_batch,
            not_joined=served.reason,
        )
        return served

    def _load(self, found: FoundModel, statistics: ServedStatistics | None) -> ServedModel:
        """Load a version on the host; this runs on a thread of its own."""
        config = self.config.of_model(found.name)
        file = self.config.signing_key
        signing = None if file is None else file.read_bytes().strip()
        loaded = load_found(found, config, self.config.threads_each, signing)
        key = f"{found.name}:{found.version}#{next(self._numbers)}"
        limits = _limits(config, loaded.max_batch, self.config.max_queue)
        served = ServedModel(found, loaded, self.host, key, limits, statistics)
        devices = [device.name for device in self.host.devices][: config.instances]
        served.add_to_host(None if _is_partitioned(loaded.model) else devices)
        if self.config.warm_up and loaded.model.versions():
            served.warm_up(self._clock(loaded) if self.config.joins_what_pays(found.name) else None)
        return served

    def _clock(self, loaded: LoadedModel) -> Clock:
        """What tells how long a run takes: for a run of one thread, not how long others take."""
        is_alone = self.config.threads_each == 1 and not _is_partitioned(loaded.model)
        return process_time if is_alone else perf_counter

    def _retire(self, served: ServedModel) -> None:
        """Take a version from the host once its requests are done."""

        async def retire() -> None:
            await served.batcher.drained()
            loop = asyncio.get_running_loop()
            await loop.run_in_executor(None, served.remove_from_host)

        task = asyncio.get_running_loop().create_task(retire())
        self._retiring.add(task)
        task.add_done_callback(self._retiring.discard)

    def unload(self, name: str) -> None:
        """Take a model from service; requests that it has are answered."""
        state = self.models.get(name)
        if state is None:
            raise _unknown(name)
        state.is_unloaded, state.reason = True, "unloaded"
        state.text = None  # texts that are being generated hold it until they are done
        for version in [*state.served]:
            self._retire(state.served.pop(version))
        self._log.info("model unloaded", model=name)

    async def poll(self) -> None:
        """Look for changed files, again and again, and load what did not change since the last."""
        while True:
            await asyncio.sleep(self.config.poll)
            before = {name: dict(state.found) for name, state in self.models.items()}
            await self._rescan()
            for name, state in [*self.models.items()]:
                if before.get(name) == state.found and not state.is_unloaded:
                    await self._follow(name, state)

    async def _follow(self, name: str, state: ModelState) -> None:
        """Serve what the folder has of a model."""
        served = {version: each.found for version, each in state.served.items()}
        newest = max(state.found, key=int, default=None)
        if state.text is not None and newest is not None:
            served = state.found if state.text_stamp == state.found[newest].stamp else {}
        if served == state.found or (state.reason and self._seen.get(name) == state.found):
            return
        self._seen[name] = dict(state.found)
        if not state.found:
            self.unload(name)
            state.is_unloaded = False
            return
        try:
            await self.load(name, rescan=False)
        except AfterglowError as error:
            self._log.error("model not loaded", model=name, reason=error.what)

    async def _texts_done(self) -> None:
        while self.completions.active:
            await asyncio.sleep(_TEXT_PAUSE)

    async def close(self, timeout: float) -> None:
        """Wait for the requests of all models, and end the host."""
        waits = [served.batcher.drained() for served in self.all_served()]
        waits.append(self._texts_done())
        try:
            await asyncio.wait_for(asyncio.gather(*waits), timeout)
        except TimeoutError:
            self._log.error("requests were given up", seconds=timeout)
        stop: Callable[[], Any] = lambda: self.host.shutdown(timeout=1.0)  # noqa: E731
        await asyncio.get_running_loop().run_in_executor(None, stop)


def load_text(found: FoundModel, threads: int | None) -> Generator:
    """A language model of the folder; whatever is wrong with it is an error for users."""
    try:
        return Generator(found.path, threads=threads)
    except AfterglowError:
        raise
    except Exception as error:  # of a library that reads files
        raise ModelError(f"{found.path.name} cannot be read: {str(error)[:200]}") from error


def _limits(config: ModelConfig, max_batch: int, max_queue: int) -> BatchLimits:
    limits = BatchLimits(max_batch, 0.0, config.instances or 1, max_queue)
    return limits if max_batch == 1 else replace(limits, max_delay=config.max_delay or 0.0)


def _is_partitioned(model: Any) -> bool:
    artifact = model.compiled.artifact if model.versions() else None
    return artifact is not None and artifact.device == PARTITIONED


def _unknown(name: str) -> RequestError:
    return not_found(f"there is no model {name[:80]!r}")
