"""A driver that records what it is asked for, with memory, kernels in Python, and errors on demand.

    driver = FakeDriver()
    driver.fail("synchronize", "CUDA_ERROR_ILLEGAL_ADDRESS", sticky=True)

Addresses are checked: whoever touches memory that is not allocated, or frees it twice, is told.
Streams do at once what they are given, unless they are captured.
"""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import dataclass, field

import numpy as np

from afterglow.backends.cuda.driver.protocol import OUT_OF_MEMORY, CudaError, DeviceFacts
from afterglow.backends.cuda.target import CudaTarget
from afterglow.runtime.artifact import Artifact
from afterglow.types import Interface, MemoryPlan, Port, TensorType
from afterglow.types.dtype import f32

CODES = {OUT_OF_MEMORY: 2, "CUDA_ERROR_NO_DEVICE": 100, "CUDA_ERROR_ILLEGAL_ADDRESS": 700}
TEXTS = {"CUDA_ERROR_ILLEGAL_ADDRESS": "an illegal memory access was encountered"}
FACTS = DeviceFacts(
    number=0,
    name="Test GPU",
    arch=90,
    multiprocessors=132,
    memory_bytes=1 << 20,
    shared_bytes=232_448,
    cache_bytes=50 << 20,
    clock=1.98e9,
    bandwidth=4.8e12,
    driver="12.8",
    uuid="00",
)


def cuda_error(call, name):
    return CudaError(call, name, CODES.get(name, 1), TEXTS.get(name, ""))


def double(context, x, y):
    """Kernels are functions of a context and addresses: here y[i] = 2 * x[i], of four numbers."""
    context.at(y, 16).view("f4")[:] = 2 * context.at(x, 16).view("f4")


def add(context, x, state, y):
    """state[i] += x[i], and y is what the state is then."""
    held = context.at(state, 16).view("f4")
    held += context.at(x, 16).view("f4")
    context.at(y, 16)[:] = context.at(state, 16)


def check(context, x, alarm):
    """Raises the first alarm if x[0] is above 9."""
    value = context.at(x, 16).view("f4")[0]
    if value > 9:
        context.at(alarm - 16, 32).view("i8")[:] = [1, 0, 1, int(value)]


KERNELS = {"double": double, "add": add, "check": check}


@dataclass
class Event:
    timed: bool
    reached: float = -1.0
    stream: int = 0


@dataclass
class Failure:
    name: str
    after: int
    sticky: bool
    times: int = 1


class FakeDriver:
    """One GPU or several; everything that is asked of their contexts is in `calls`."""

    def __init__(self, *facts: DeviceFacts) -> None:
        self.facts = facts or (FACTS,)
        self.calls: list[tuple] = []
        self.failures: dict[str, Failure] = {}
        self.contexts: list[FakeContext] = []
        self.is_shared = False
        """Whether something else in the process has the context open as well."""
        self.addresses = itertools.count(1 << 20, 1 << 20)

    def fail(self, call, name, *, after=0, sticky=False, times=1):
        self.failures[call] = Failure(name, after, sticky, times)

    def devices(self):
        self.asked("devices")
        return list(self.facts)

    def open(self, number):
        self.asked("open", number)
        self.contexts.append(FakeContext(self, self.facts[number]))
        return self.contexts[-1]

    def asked(self, call, *arguments):
        self.calls.append((call, *arguments))
        failure = self.failures.get(call)
        if failure is None:
            return
        if failure.after:
            failure.after -= 1
            return
        failure.times -= 1
        if not failure.times:
            del self.failures[call]
        error = cuda_error(call, failure.name)
        if failure.sticky:
            self.contexts[-1].broken = failure.name
        raise error

    def named(self, *names):
        """The calls of these names, in order."""
        return [call for call in self.calls if call[0] in names]

    def count(self, name):
        return Counter(call[0] for call in self.calls)[name]


@dataclass
class FakeContext:
    driver: FakeDriver
    facts: DeviceFacts
    blocks: dict[int, np.ndarray] = field(default_factory=dict)
    captures: dict[int, list] = field(default_factory=dict)
    broken: str = ""
    pinned: int = 0
    graphs: int = 0
    streams: int = 0
    events: int = 0
    modules: int = 0
    clock: float = 0.0

    def at(self, address, nbytes):
        """Bytes of memory; an access outside of all blocks is an error of the test."""
        for start, block in self.blocks.items():
            if start <= address and address + nbytes <= start + len(block):
                return block[address - start : address - start + nbytes]
        raise AssertionError(f"{nbytes} bytes at {address} are not allocated")

    def hold(self, array):
        """Memory of somebody else on this GPU, that holds an array; its address."""
        address = next(self.driver.addresses)
        self.blocks[address] = np.ascontiguousarray(array).reshape(-1).view(np.uint8).copy()
        return address

    def _asked(self, call, *arguments):
        if self.broken:
            raise cuda_error(call, self.broken)
        self.driver.asked(call, *arguments)

    def _do(self, stream, command):
        if stream in self.captures:
            self.captures[stream].append(command)
        else:
            command()

    @property
    def used(self):
        return sum(map(len, self.blocks.values()))

    def alloc(self, nbytes):
        self._asked("alloc", nbytes)
        nbytes = max(nbytes, 1)
        if self.used + nbytes > self.facts.memory_bytes:
            raise cuda_error("alloc", OUT_OF_MEMORY)
        address = next(self.driver.addresses)
        self.blocks[address] = np.full(nbytes, 0xA5, np.uint8)
        return address

    def free(self, address):
        self._asked("free", address)
        del self.blocks[address]

    def alloc_host(self, nbytes):
        self._asked("alloc_host", nbytes)
        self.pinned += 1
        return np.empty(nbytes, np.uint8)

    def free_host(self, array):
        self._asked("free_host")
        self.pinned -= 1

    def upload(self, address, data, stream):
        assert data.flags.c_contiguous
        assert data.dtype == np.uint8
        self._asked("upload", address, data.nbytes, stream)

        def run():
            self.at(address, data.nbytes)[:] = data

        self._do(stream, run)

    def download(self, data, address, stream):
        assert data.flags.c_contiguous
        assert data.dtype == np.uint8
        self._asked("download", address, data.nbytes, stream)

        def run():
            data[:] = self.at(address, data.nbytes)

        self._do(stream, run)

    def copy(self, to, source, nbytes, stream):
        self._asked("copy", to, source, nbytes, stream)

        def run():
            self.at(to, nbytes)[:] = self.at(source, nbytes)

        self._do(stream, run)

    def fill(self, address, nbytes, stream):
        self._asked("fill", address, nbytes, stream)

        def run():
            self.at(address, nbytes)[:] = 0

        self._do(stream, run)

    def load(self, code, symbol, shared):
        self._asked("load", symbol, shared)
        self.modules += 1
        return code.decode()

    def unload(self, function):
        self._asked("unload", function)
        self.modules -= 1

    def launch(self, function, grid, threads, shared, pointers, stream, *, pdl=False):
        self._asked("launch", function, grid, threads, shared, stream, pdl)
        pointers = [*pointers]

        def run():
            self.clock += 1e-6
            KERNELS[function](self, *pointers)

        self._do(stream, run)

    def new_stream(self):
        self._asked("new_stream")
        self.streams += 1
        return 100 + self.streams

    def free_stream(self, stream):
        self._asked("free_stream", stream)

    def synchronize(self, stream):
        assert stream not in self.captures, "a stream is waited for while it is captured"
        self._asked("synchronize", stream)

    def new_event(self, *, timed=False):
        self._asked("new_event", timed)
        self.events += 1
        return Event(timed)

    def free_event(self, event):
        self._asked("free_event")
        self.events -= 1

    def record(self, event, stream):
        self._asked("record", stream)

        def run():
            event.reached = self.clock
            event.stream = stream

        self._do(stream, run)

    def wait(self, stream, event):
        self._asked("wait", stream)

    def elapsed(self, start, end):
        assert start.timed
        assert end.timed
        return end.reached - start.reached

    def begin_capture(self, stream):
        self._asked("begin_capture", stream)
        self.captures[stream] = []

    def end_capture(self, stream):
        captured = self.captures.pop(stream)
        self._asked("end_capture", stream)
        self.graphs += 1
        return captured

    def replay(self, graph, stream, turn=None):
        self._asked("replay", stream)
        for command in graph:
            command()

    def free_graph(self, graph):
        self._asked("free_graph")
        self.graphs -= 1

    def memory(self):
        self._asked("memory")
        return self.facts.memory_bytes - self.used, self.facts.memory_bytes

    def close(self):
        self.driver.calls.append(("close",))
        return not self.driver.is_shared


def vector(count=4):
    return TensorType(f32, (count,))


def artifact(parts, *, states=(), checks=(), arena=64, constants=16, arch=90, unchecked=False):
    """A program on x: f32[4] that gives y: f32[4], with kernels by name and their memories."""
    kernels = {
        name: {"section": f"cubin.{name}", "symbol": name, "shared": 1024, "warps": 4}
        for name, *_ in parts
    }
    manifest = {
        "target": CudaTarget(f"sm_{arch}", arch, 1, 1, 1, 1.0, 1.0, 1.0).to_json(),
        "arch": arch,
        "kernels": kernels,
        "arena_bytes": arena,
        "counters": 4,
        "parts": [
            {
                "kernel": name,
                "places": [number],
                "origins": [f"node {number}"],
                "memory": [[memory, 0] if isinstance(memory, str) else memory for memory in used],
                "grid": [2, 1, 1],
                "reads": [],
                "writes": [],
                "pdl": True,
            }
            for number, (name, *used) in enumerate(parts)
        ],
        "checks": [each.describe() for each in checks],
        "unchecked": unchecked,
    }
    sections = {f"cubin.{name}": name.encode() for name in kernels}
    interface = Interface(
        (Port("x", vector()),),
        (Port("y", vector()),),
        tuple(Port(name, vector()) for name in states),
    )
    made = {**sections, "source": b"", "constants": bytes(constants)}
    return Artifact("cuda", interface, MemoryPlan(arena, arena, arena), manifest, made)


DOUBLED = (("double", "input 0", "output 0"),)
QUADRUPLED = (("double", "input 0", "arena"), ("double", "arena", "output 0"))
