"""Time training steps on Afterglow, PyTorch (eager and compiled) and JAX, which take turns.

    python -m benchmarks.training [--nets mlp,lstm] [--vs eager,inductor,jax] [--threads 1,2]

Each engine is a process of its own with as many cores as it may use. They are all started, warmed
up, and then run for short turns, one after the other, so that what else the machine does falls on
all of them. The least time of a step is printed, as a table in Markdown.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable

import click

OURS = "afterglow"
PEERS = ("eager", "inductor", "jax")
WARM_UP = 3


def make(engine: str, net: str, threads: int) -> Callable[[], float]:
    """The step of an engine; imports it, and so belongs into a process of its own."""
    from benchmarks.training_nets import NETS, make_step  # noqa: PLC0415

    if engine == OURS:
        return make_step(net, threads)
    arrays, rule = NETS[net].arrays(), NETS[net].rule
    if engine == "jax":
        from benchmarks import training_jax  # noqa: PLC0415

        return training_jax.make_step(net, arrays, rule)
    import torch  # noqa: PLC0415

    from benchmarks import training_torch  # noqa: PLC0415

    torch.set_num_threads(threads)
    return training_torch.make_step(net, arrays, rule, compiled=engine == "inductor")


def work(engine: str, net: str, threads: int) -> None:
    """Do turns: for each line of input, seconds, print the least time and the last loss."""
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])
    multi = "true" if threads > 1 else "false"
    os.environ["XLA_FLAGS"] = f"--xla_cpu_multi_thread_eigen={multi}"
    step = make(engine, net, threads)
    for _ in range(WARM_UP):
        step()
    print("ready", flush=True)
    for line in sys.stdin:
        end, best, loss = time.perf_counter() + float(line), float("inf"), 0.0
        while time.perf_counter() < end:
            start = time.perf_counter()
            loss = step()
            best = min(best, time.perf_counter() - start)
        print(json.dumps([best, loss]), flush=True)


class Worker:
    """The process of an engine."""

    def __init__(self, engine: str, net: str, threads: int) -> None:
        words = [sys.executable, "-m", "benchmarks.training", "--work", engine, net, str(threads)]
        pipe, drop = subprocess.PIPE, subprocess.DEVNULL
        self.process = subprocess.Popen(words, stdin=pipe, stdout=pipe, stderr=drop, text=True)
        assert self.process.stdout is not None
        self.is_ready = self.process.stdout.readline() == "ready\n"

    def turn(self, seconds: float) -> float:
        """The least time of a step in one turn."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        print(seconds, file=self.process.stdin, flush=True)
        return float(json.loads(self.process.stdout.readline())[0])

    def close(self) -> None:
        """End the process."""
        self.process.kill()
        self.process.wait()


def compare(net: str, engines: list[str], threads: int, seconds: float, turns: int) -> list[float]:
    """The least time of each engine; infinity if it does not run."""
    workers = [Worker(engine, net, threads) for engine in engines]
    best = [float("inf")] * len(engines)
    for _ in range(turns):
        for place, worker in enumerate(workers):
            if worker.is_ready:
                best[place] = min(best[place], worker.turn(seconds))
    for worker in workers:
        worker.close()
    return best


@click.command()
@click.option("--nets", default="mlp,lstm,transformer,resnet18")
@click.option("--vs", default=",".join(PEERS))
@click.option("--threads", default="1,2")
@click.option("--seconds", default=1.0, help="length of a turn")
@click.option("--turns", default=5)
@click.option("--work", "worker", nargs=3, default=None, hidden=True)
def main(
    nets: str, vs: str, threads: str, seconds: float, turns: int, worker: tuple[str, ...] | None
) -> None:
    """Compare the times of training steps."""
    if worker is not None:
        work(worker[0], worker[1], int(worker[2]))
        return
    engines = [OURS, *vs.split(",")]
    print(f"| net | threads | {' | '.join(engines)} | ratio to the best peer |")
    print(f"|---|---|{'---|' * len(engines)}---|", flush=True)
    for net in nets.split(","):
        for count in map(int, threads.split(",")):
            best = compare(net, engines, count, seconds, turns)
            shown = " | ".join(f"{t * 1e3:.2f} ms" for t in best)
            print(f"| {net} | {count} | {shown} | {best[0] / min(best[1:]):.2f} |", flush=True)


if __name__ == "__main__":
    main()
