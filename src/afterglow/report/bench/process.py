"""The parent's side of an engine process: start, query, suspend between turns, terminate."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

PACKAGES = Path(__file__).parent
SCRIPT = "import sys; sys.path.append(sys.argv[1]); from engine_process.serve import main; main()"
THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "TVM_NUM_THREADS",
    "NPROC",  # XLA's
)


class EngineError(Exception):
    """An engine cannot run the model; the text says why."""


class MissingError(EngineError):
    """An engine is not installed."""


class EngineProcess:
    """A process that runs an engine; suspended while other engines are timed."""

    def __init__(self, python: str, task: Mapping[str, Any], log: Path) -> None:
        self._log = log
        threads = str(task["threads"])
        with log.open("wb") as errors:
            self._process = subprocess.Popen(
                [python, "-c", SCRIPT, str(PACKAGES)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                env={**os.environ, **dict.fromkeys(THREAD_VARIABLES, threads)},
                start_new_session=True,
            )
        self._unread = b""
        if task["do"] == "serve":
            self._pin(task.get("cores") or _last_cores(task["threads"] * task.get("streams", 1)))
        self._write(task)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def ask(self, question: Mapping[str, Any], seconds: float) -> dict[str, Any]:
        """Resume the process, send a request, wait for the answer, and suspend it again."""
        self._signal(signal.SIGCONT)
        self._write(question)
        answer = self.read(seconds)
        self.freeze()
        return answer

    def read(self, seconds: float) -> dict[str, Any]:
        """The next answer of the process; raises if it takes longer than `seconds`."""
        output = self._process.stdout
        assert output is not None
        end = time.monotonic() + seconds
        while b"\n" not in self._unread:
            left = end - time.monotonic()
            if left <= 0 or not select.select([output], [], [], left)[0]:
                raise EngineError(f"no answer within {seconds:.0f} s")
            got = os.read(output.fileno(), 1 << 16)
            if not got:
                raise EngineError(f"the process ended: {self._last_words()}")
            self._unread += got
        line, _, self._unread = self._unread.partition(b"\n")
        return _checked(json.loads(line))

    def freeze(self) -> None:
        """Suspend all threads of the process."""
        self._signal(signal.SIGSTOP)

    def close(self) -> None:
        """Kill the process and its children."""
        self._signal(signal.SIGKILL)
        self._process.communicate()

    def _pin(self, cores: Sequence[int]) -> None:
        """Have it run on these cores only, where the system can."""
        if hasattr(os, "sched_setaffinity"):
            os.sched_setaffinity(self._process.pid, cores)

    def _write(self, question: Mapping[str, Any]) -> None:
        stream = self._process.stdin
        assert stream is not None
        try:
            stream.write(json.dumps(question).encode() + b"\n")
            stream.flush()
        except BrokenPipeError:
            return  # reading the answer will tell why

    def _signal(self, number: signal.Signals) -> None:
        try:
            os.killpg(self._process.pid, number)
        except ProcessLookupError:
            return

    def _last_words(self) -> str:
        lines = self._log.read_text(errors="replace").strip().splitlines()
        return lines[-1] if lines else "no output"


def _last_cores(count: int) -> list[int]:
    """As many cores as there are threads; the last ones, as systems use the first."""
    return sorted(os.sched_getaffinity(0))[-count:] if hasattr(os, "sched_getaffinity") else []


def _checked(answer: dict[str, Any]) -> dict[str, Any]:
    if "missing" in answer:
        raise MissingError(answer["missing"])
    if "error" in answer:
        raise EngineError(answer["error"])
    return answer
