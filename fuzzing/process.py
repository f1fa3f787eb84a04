"""Worker processes as their campaign sees them: requests in, answers and accidents out."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from fuzzing.kind import Setup
from fuzzing.limits import Patience, processor_seconds, queueing_seconds
from fuzzing.outcome import MOST_TEXT, ROOT, Outcome, Verdict

ONE_THREAD = {
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "MALLOC_ARENA_MAX": "2",
    "TF_CPP_MIN_LOG_LEVEL": "3",
}
"""Threads of libraries would take address space, and time from other workers."""


@dataclass
class Request:
    """An example that a worker is making or checking."""

    line: str
    asked: float
    checking: bool = False
    began: float = 0.0
    computed: float = 0.0
    """Processor time that the worker had used when the check began."""
    queued: float = 0.0
    """Time that it had waited for a processor by then."""


class WorkerProcess:
    """A worker, which is replaced after it has crashed, hung or grown."""

    def __init__(self, kind: str, setup: Setup, patience: Patience | None = None) -> None:
        self.kind = kind
        self.setup = setup
        self.patience = patience or Patience()
        self.folder = Path(mkdtemp(prefix=f"{kind}-", dir=setup.scratch))
        self.current = self.folder / "current"
        self.request: Request | None = None
        self._start()

    @property
    def pipe(self) -> int:
        """The descriptor that becomes readable when there is an answer."""
        return self._answers

    def ask(self, line: str) -> None:
        """Send a request: `seed N` or `file PATH`."""
        self.request = Request(line, time.monotonic())
        if self._process.poll() is not None:
            self._restart()
        try:
            self._requests.write(line + "\n")
        except OSError:  # it has just ended; it gets the request again
            self._restart()
            self._requests.write(line + "\n")

    def answer(self) -> Outcome | None:
        """The outcome of the request, once there is one; call it when the pipe is readable."""
        data = os.read(self.pipe, 1 << 16)
        if not data:
            return self._crashed()
        *lines, self._begun = (self._begun + data).split(b"\n")
        outcomes = [self._heard(json.loads(line)) for line in lines]
        return next((outcome for outcome in outcomes if outcome is not None), None)

    def _heard(self, fields: Mapping[str, Any]) -> Outcome | None:
        if "ready" in fields:
            return None
        assert self.request is not None
        if "begins" in fields:
            self.request.checking = True
            self.request.began = time.monotonic()
            self.request.computed = processor_seconds(self._process.pid)
            self.request.queued = queueing_seconds(self._process.pid)
            return None
        return self._answered(fields)

    def overdue(self) -> Outcome | None:
        """A finding if the request takes too long; the worker is then replaced."""
        request = self.request
        if request is None:
            return None
        if not request.checking:  # importing or making: no finding
            if time.monotonic() - request.asked < 4 * self.patience.waiting:
                return None
            self._restart()
            return self._done(Outcome(Verdict.SKIPPED, text="not made in time"))
        computed = processor_seconds(self._process.pid) - request.computed
        queued = queueing_seconds(self._process.pid) - request.queued
        waited = time.monotonic() - request.began - computed - queued
        if not self.patience.is_over(computed, waited):
            return None
        text = self._stack()
        self._restart()
        return self._done(Outcome(Verdict.FINDING, f"hang {_innermost(text)}", text))

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.wait()
        with contextlib.suppress(OSError):  # a request that nobody reads
            self._requests.close()
        os.close(self._answers)
        self._errors.close()

    def _start(self) -> None:
        read, write = os.pipe()
        self._errors = (self.folder / "stderr").open("w+")
        corpus = self.setup.corpus or ""
        command = [sys.executable, "-m", "fuzzing.worker", self.kind]
        command += [str(self.setup.scratch), str(corpus), str(self.current), str(write)]
        self._process = subprocess.Popen(
            command,
            cwd=ROOT,
            env=_environment(self.folder),
            stdin=subprocess.PIPE,
            stdout=self._errors,
            stderr=self._errors,
            pass_fds=[write],
            text=True,
            bufsize=1,
        )
        os.close(write)
        assert self._process.stdin is not None
        self._requests = self._process.stdin
        self._answers = read
        self._begun = b""

    def _restart(self) -> None:
        self.close()
        self._start()

    def _answered(self, fields: Mapping[str, Any]) -> Outcome:
        if fields["full"]:
            self._process.wait()
            self._restart()
        verdict = Verdict(fields["verdict"])
        return self._done(Outcome(verdict, fields["signature"], fields["text"]))

    def _crashed(self) -> Outcome | None:
        status = self._process.wait()
        text = self._stderr()
        self._restart()
        if self.request is None:
            return None
        how = signal.Signals(-status).name if status < 0 else f"exit status {status}"
        if not self.request.checking:
            return self._done(Outcome(Verdict.SKIPPED, text=f"{how} while it was made\n{text}"))
        return self._done(Outcome(Verdict.FINDING, f"{how} {_innermost(text)}", f"{how}\n{text}"))

    def _done(self, outcome: Outcome) -> Outcome:
        self.request = None
        return outcome

    def _stack(self) -> str:
        """Where the worker is, as the fault handler prints it when it is made to abort."""
        self._process.send_signal(signal.SIGABRT)
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            return "it does not end"
        return self._stderr()

    def _stderr(self) -> str:
        self._errors.flush()
        return (self.folder / "stderr").read_text(errors="replace")[-MOST_TEXT:]


def _environment(folder: Path) -> dict[str, str]:
    paths = [str(ROOT), str(ROOT / "src"), os.environ.get("PYTHONPATH", "")]
    cache = {"AFTERGLOW_CACHE": str(folder / "cache")}
    return {**os.environ, **ONE_THREAD, **cache, "PYTHONPATH": os.pathsep.join(filter(None, paths))}


def _innermost(stack: str) -> str:
    """The innermost function of this repository in a stack of the fault handler."""
    for line in stack.splitlines():
        if line.startswith('  File "') and f'"{ROOT}' in line:
            file, _, rest = line.removeprefix('  File "').partition('"')
            return f"in {Path(file).relative_to(ROOT)}:{rest.rpartition(' in ')[2]}"
    return "outside"
