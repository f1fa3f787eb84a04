"""Processes that compile kernels, each at its own pace; one that dies is replaced."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, TypeAlias

from afterglow.backends.cuda.compile.worker import read_frame, write_frame
from afterglow.support.lazy_dataclass import dataclass

Job: TypeAlias = dict[str, Any]
"""What `worker.compile_job` takes."""
Progress: TypeAlias = Callable[[int, int], None]
"""Told how many of how many kernels are done."""
TOOLS = ("TRITON_PTXAS_PATH", "TRITON_PTXAS_BLACKWELL_PATH", "TRITON_LIBDEVICE_PATH")
"""Variables that say where Triton's tools are; its others are not for what is compiled here."""
LONGEST = 600.0
"""Seconds that a kernel may take: some make the assembler search without end."""
_ATTEMPTS = 2
"""How often a job is tried whose process dies: something else may have killed it."""
_LOG = "printed"
_EXPLAINED = ("CompilationError", "PTXASError")
"""Errors that say all; of others, more is printed."""
_TELLING = ("error", "assert", "failed")
_MOST_LINES = 10


@dataclass(frozen=True)
class Answer:
    """What came of a job: facts and machine code, or why there is none."""

    facts: dict[str, Any]
    code: bytes = b""
    error: str = ""


def run_jobs(
    jobs: Sequence[Job],
    count: int,
    *,
    seconds: float = LONGEST,
    progress: Progress | None = None,
) -> list[Answer]:
    """What comes of jobs, in their order, by at most so many processes at once."""
    with tempfile.TemporaryDirectory(
        prefix="afterglow-kernels-", ignore_cleanup_errors=True
    ) as folder:
        folders = [Path(folder) / str(index) for index in range(min(count, len(jobs)))]
        crew = _Crew(jobs, [_Process(each, seconds) for each in folders])
        try:
            return crew.run(progress)
        finally:
            crew.close()


class _Crew:
    """Threads that each give jobs to a process."""

    def __init__(self, jobs: Sequence[Job], processes: Sequence[_Process]) -> None:
        self._jobs = jobs
        self._processes = processes
        self._threads = [threading.Thread(target=self._work, args=[each]) for each in processes]
        self._waiting: SimpleQueue[int] = SimpleQueue()
        self._done: SimpleQueue[tuple[int, Answer] | BaseException] = SimpleQueue()

    def run(self, progress: Progress | None) -> list[Answer]:
        """What comes of all jobs."""
        lengths = [len(job["text"]) for job in self._jobs]
        # the longest first, so that no process is alone with one at the end
        for index in sorted(range(len(lengths)), key=lambda index: -lengths[index]):
            self._waiting.put(index)
        for thread in self._threads:
            thread.start()
        answers: dict[int, Answer] = {}
        while len(answers) < len(self._jobs):
            done = self._done.get()
            if isinstance(done, BaseException):
                raise done
            answers[done[0]] = done[1]
            if progress is not None:
                progress(len(answers), len(self._jobs))
        return [answers[index] for index in range(len(self._jobs))]

    def close(self) -> None:
        """Stop everything, also what is under way."""
        for process in self._processes:
            process.close()
        for thread in self._threads:
            if thread.ident is not None:
                thread.join()

    def _work(self, process: _Process) -> None:
        try:
            while not process.is_closed:
                index = self._waiting.get_nowait()
                self._done.put((index, process.answer(self._jobs[index])))
        except Empty:
            return
        except BaseException as error:  # for the thread that waits
            self._done.put(error)


class _Process:
    """One process, which is started when there is something to do."""

    def __init__(self, folder: Path, seconds: float) -> None:
        self.is_closed = False
        self._folder = folder
        self._seconds = seconds
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()
        self._printed_before = 0

    def answer(self, job: Job) -> Answer:
        """What comes of a job."""
        for _ in range(_ATTEMPTS):
            late = threading.Event()
            frame = self._ask(job, late)
            if frame is not None:
                return self._answer_of(*frame)
            if late.is_set():
                return Answer({}, error=f"it takes more than {self._seconds:g} s to compile")
        return Answer({}, error=f"the compiler crashes{self._printed()}")

    def close(self) -> None:
        """Stop it for good, whatever it does; from any thread."""
        with self._lock:
            self.is_closed = True
            self._stop()

    def _answer_of(self, facts: dict[str, Any], code: bytes) -> Answer:
        error = facts.pop("error", "")
        if error and not error.startswith(_EXPLAINED):
            error += self._printed()
        return Answer(facts, code, error)

    def _ask(self, job: Job, late: threading.Event) -> tuple[dict[str, Any], bytes] | None:
        """The answer of the process; None if it dies, or is stopped because it is late."""
        process = self._running()
        if process is None:
            return None
        assert process.stdin is not None
        assert process.stdout is not None

        def stop() -> None:
            late.set()
            process.kill()

        timer = threading.Timer(self._seconds, stop)
        timer.start()
        try:
            write_frame(process.stdin, job)
            frame = read_frame(process.stdout)
        except (OSError, ValueError):  # its pipes are closed
            frame = None
        finally:
            timer.cancel()
        if frame is None:
            with self._lock:
                self._stop()
        return frame

    def _running(self) -> subprocess.Popen[bytes] | None:
        with self._lock:
            if self._process is None and not self.is_closed:
                self._folder.mkdir(exist_ok=True)
                self._process = _start(self._folder)
            self._printed_before = (self._folder / _LOG).stat().st_size if self._process else 0
            return self._process

    def _stop(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        process.wait()
        assert process.stdin is not None
        assert process.stdout is not None
        for stream in (process.stdin, process.stdout):
            with suppress(OSError):
                stream.close()

    def _printed(self) -> str:
        """What it printed during the last job, as far as it tells of errors."""
        text = (self._folder / _LOG).read_bytes()[self._printed_before :].decode(errors="replace")
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        telling = [line for line in lines if any(word in line.lower() for word in _TELLING)]
        return "".join(f"\n{line}" for line in (telling or lines)[:_MOST_LINES])


def _start(folder: Path) -> subprocess.Popen[bytes]:
    """A new process, which sees no GPU and writes into the folder alone."""
    with open(folder / _LOG, "wb") as log:
        return subprocess.Popen(
            # a script rather than a module: the package is not imported with it
            [sys.executable, "-P", str(Path(__file__).with_name("worker.py"))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            env=_environment(folder),
            # an interrupt from the keyboard is for the caller, who then stops the others
            process_group=0,
        )


def _environment(folder: Path) -> dict[str, str]:
    """Variables of a process: those of this one, but for what Triton would take from them."""
    inherited = {
        name: value
        for name, value in os.environ.items()
        if name in TOOLS or not name.startswith("TRITON_")
    }
    return {
        **inherited,
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
        "CUDA_VISIBLE_DEVICES": "",
        "TMPDIR": str(folder),
        "TRITON_CACHE_DIR": str(folder / "cache"),
        "TRITON_STORE_BINARY_ONLY": "1",
        "TRITON_DISABLE_LINE_INFO": "1",
    }
